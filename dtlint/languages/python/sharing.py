"""Hands what one program told of a place on to other programs of which the file is part.

Programs of one tree share most of their files: what a condition in a library means is worked out in the first program
that asks. Another program takes the answer over if it gives the same answers to all that was asked of the first one:
which definitions names lead to, who calls a function, which arguments are declared and given, what config files say.
Nothing else of a program may be looked at on the way to an answer that is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar, cast

from dtlint.languages.python.callers import callers, namesakes, times_named
from dtlint.languages.python.handed_over import handed_over_calls
from dtlint.languages.python.memo import Answer, Question
from dtlint.languages.python.program import (
    Definition,
    Program,
    all_modules,
    binding_module,
    config_file,
    declared_argument,
    definition,
    entry_script,
    given_argument,
    given_below,
    holder_of,
    imports_from,
    is_entry,
    locate,
    module_named,
    reads_configs,
    subclasses,
)
from dtlint.languages.python.tree import Module, Scope
from dtlint.source import Source

Found = TypeVar("Found")

_MOST_ANSWERS = 8
"""Most answers about one place that are kept: programs differ in few ways."""


_ASK: Mapping[str, Callable[[Program, Module, str], object]] = {
    "definition": definition,
    "location": locate,
    "binding": binding_module,
    "entry": lambda program, module, _: is_entry(program, module),
}
_ASK_PROGRAM: Mapping[str, Callable[[Program, str], object]] = {
    "argument": declared_argument,
    "config": config_file,
    "configs": lambda program, _: reads_configs(program),
    "given": given_argument,
    "given below": given_below,
    "modules": lambda program, _: all_modules(program),
    "package": imports_from,
    "script": lambda program, _: entry_script(program),
    "subclasses": subclasses,
}
_ASK_FUNCTION: Mapping[str, Callable[[Program, Definition], object]] = {
    "callers": callers,
    "handed over": handed_over_calls,
    "namesakes": namesakes,
    "times named": times_named,
}


def kept(program: Program, key: Hashable, find: Callable[[], Found], sure: Callable[[], bool] = lambda: True) -> Found:
    """What `find` finds, which has to follow from `key` and the answers of the program; or what it found before.

    An answer is handed on to other programs only if it is `sure` when found: not if steps have run out on the way.
    """
    memo = program.memo
    answer = memo.answers.get(key)
    if answer is None:
        answer = memo.answers[key] = _taken_over(program, key) or _found(program, key, find, sure)
    if memo.questions is not None:
        memo.questions.update(answer.questions)
    return cast("Found", answer.found)


def _taken_over(program: Program, key: Hashable) -> Answer | None:
    """What another program found, if this one would have answered alike."""
    known = program.memo.files.shared.answers.get(key) or ()
    return next((answer for answer in known if _would_find(program, answer)), None)


def _would_find(program: Program, answer: Answer) -> bool:
    memo = program.memo
    noting, memo.questions = memo.questions, {}
    try:
        return all(_says(program, question, said) for question, said in answer.questions.items())
    finally:
        memo.questions = noting


def _says(program: Program, question: Question, said: object) -> bool:
    """Whether the program gives this answer to a question."""
    noted = program.memo.questions
    if noted is None or question not in noted:
        _ask(program, question)
    return noted is not None and question in noted and noted[question] == said


def _ask(program: Program, question: Question) -> None:
    about = question.about
    if question.kind in _ASK_PROGRAM:
        _ASK_PROGRAM[question.kind](program, str(about))
    elif isinstance(about, Source):
        holder_of(program, about)
    else:
        _ask_of_module(program, question)


def _ask_of_module(program: Program, question: Question) -> None:
    module, about = module_named(program, question.module), question.about
    if module is None or module.top is not question.top:
        return
    if isinstance(about, Scope):
        _ASK_FUNCTION[question.kind](program, Definition(module, about))
    else:
        _ASK[question.kind](program, module, str(about))


def _found(program: Program, key: Hashable, find: Callable[[], object], sure: Callable[[], bool]) -> Answer:
    memo = program.memo
    noting, memo.questions = memo.questions, {}
    try:
        found = find()
        answer = Answer(memo.questions, found)
    finally:
        memo.questions = noting
    if sure():
        known = memo.files.shared.answers.get(key) or []
        memo.files.shared.answers.keep(key, [answer, *known[: _MOST_ANSWERS - 1]])
    return answer
