"""Scripts made at random start torchrun with the words that bash passes, and spans tile the words as they stand."""

from __future__ import annotations

import shutil
import subprocess
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtlint.languages.shell import read_script
from dtlint.languages.traced import Word
from dtlint.source import Source

BASH = shutil.which("bash")
RECORD = 'torchrun() { printf \'%s\\0\' "$#" "$@"; }\n'

names = st.sampled_from(("A", "B", "C"))
plain = st.text("abx01_./-=,:%+", min_size=1, max_size=4)
arrays = st.sampled_from(('"${L[@]}"', "${L[*]}", "${L[1]}", "${#L[@]}", '"${L[@]:1}"', "${!L[@]}", '"${L[*]/a/b}"'))
operators = st.sampled_from(
    (":-d e", ":+y", "-", "%/*", "##*/", "#a", "%%.*", "/a/b", "//x/", "^^", ",,", ":1", ":1:2", "@Q", ":-'d e'")
)
sums = st.sampled_from(("1+2*3", "(7-2)/2", "N%3", "N<<2|1", "N>3?10:20", "N++ + N", "-N**2", "~N&15", "N=4,N"))
unquoted = st.one_of(
    plain,
    names.map("${}".format),
    st.builds("${{{}{}}}".format, names, operators),
    sums.map("$(({}))".format),
    st.builds("$(echo {} ${})".format, plain, names),
    st.sampled_from(("'a b'", "'$A'", "\\ x", "\\$A", "$'a\\tb'", "{a,b}", "{1..3}", "''", "a~", "a\\\nb")),
    arrays,
)
quoted = st.lists(
    st.one_of(
        plain,
        names.map("${}".format),
        st.builds("${{{}{}}}".format, names, operators),
        sums.map("$(({}))".format),
        st.sampled_from((" ", "  ", "\\$", "\\\\", "\\x", "'", "$(echo 'a  b')", "`echo q`", "\\\n")),
    ),
    max_size=3,
).map(lambda parts: '"' + "".join(parts) + '"')
words = st.lists(unquoted | quoted, min_size=1, max_size=3).map("".join)
lines = st.one_of(
    st.builds("{}={}".format, names, words.filter(lambda word: "L[" not in word)),
    st.builds("{}+={}".format, names, plain),
    st.builds("L+=({} {})".format, words, words),
    st.builds("torchrun {} {}".format, words, words),
    st.builds('if [ "${}" = {} ]; then torchrun yes; else torchrun no; fi'.format, names, plain),
    st.builds("case ${} in {}*) torchrun one;; *) torchrun other;; esac".format, names, plain),
    st.builds("for x in {} {}; do torchrun $x; done".format, words, words),
    st.builds('f() {{ local A={}; torchrun "$A" "$@"; }}; f {}'.format, plain, words),
)
scripts = st.lists(lines, min_size=1, max_size=5).map(
    lambda written: "\n".join(["A='p q' B=/a/b.c C= N=5", "L=(a 'b c')", *written, 'torchrun "$A" $A "$B" "$C" $N', ""])
)


def bash_starts(script: str) -> list[list[str]] | None:
    """The arguments of each torchrun; None where bash finds an error."""
    done = subprocess.run([BASH or "", "-c", RECORD + script], capture_output=True, timeout=20, check=False)
    if done.returncode or done.stderr:
        return None
    fields = iter(done.stdout.decode().split("\0")[:-1])
    return [[next(fields) for _ in range(int(count))] for count in fields]


def our_starts(script: str) -> list[list[Word]]:
    (world,) = read_script(Source("a.sh", script)).worlds
    return [list(command.argv[1:]) for command in world.commands if command.argv[0].text == "torchrun"]


@pytest.mark.skipif(BASH is None, reason="there is no bash here")
@given(scripts)
@settings(max_examples=150, deadline=None)
def test_scripts_start_what_bash_starts(script: str) -> None:
    theirs = bash_starts(script)
    ours = our_starts(script)
    if theirs is None or any(word.many for argv in ours for word in argv):
        return
    assert len(ours) == len(theirs)
    for argv, wanted in zip(ours, theirs, strict=True):
        assert len(argv) == len(wanted)
        assert all(word.text in (None, text) for word, text in zip(argv, wanted, strict=True))


@given(st.lists(st.one_of(plain, st.sampled_from(("'a b'", '"c  d"', "\\ ", "e\\\nf"))), min_size=1, max_size=5))
@settings(max_examples=100, deadline=None)
def test_the_pieces_of_a_written_word_tile_it(parts: list[str]) -> None:
    written = "".join(parts)
    (command,) = our_starts(f"torchrun {written}\n")
    (word,) = command
    assert word.place.text == written
    places = [(piece.span.start, piece.span.end) for piece in word.pieces if piece.text]
    assert places == sorted(places)
    assert all(after >= end for (_, end), (after, _) in pairwise(places))
    assert "".join(piece.text or "" for piece in word.pieces) == word.text
