"""Pure commands that are followed instead of reported: the text that each would print, None where that is not known."""

from __future__ import annotations

from collections.abc import Callable

from dtlint.languages.shell.awk import run_awk
from dtlint.languages.shell.calculators import run_bc, run_expr, run_seq
from dtlint.languages.shell.call import Call
from dtlint.languages.shell.copies import run_cat, run_copy, run_envsubst, run_move, run_tee
from dtlint.languages.shell.jq import run_jq
from dtlint.languages.shell.lines import run_cut, run_grep, run_head, run_sort, run_tail, run_tr, run_uniq, run_wc
from dtlint.languages.shell.paths import run_basename, run_dirname, run_realpath
from dtlint.languages.shell.sed import run_sed
from dtlint.languages.shell.text import Text, literal, unknown


def _date(call: Call) -> Text:
    return (*unknown(call.place, "the date is known only when it runs"), *literal("\n", call.place))


def _hostname(call: Call) -> Text:
    return (
        *unknown(call.place, "the host is known only when it runs", "", "cluster.this_host"),
        *literal("\n", call.place),
    )


def _cores(call: Call) -> Text:
    cluster = call.shell.world.given.cluster
    if "cluster.cpus_per_node" in cluster:
        return literal(cluster["cluster.cpus_per_node"] + "\n", call.place)
    return unknown(call.place, "the number of cores is known only when it runs", "", "cluster.cpus_per_node")


FILTERS: dict[str, Callable[[Call], Text | None]] = {
    "awk": run_awk,
    "gawk": run_awk,
    "basename": run_basename,
    "bc": run_bc,
    "cat": run_cat,
    "cp": run_copy,
    "cut": run_cut,
    "date": _date,
    "dirname": run_dirname,
    "envsubst": run_envsubst,
    "expr": run_expr,
    "grep": run_grep,
    "egrep": run_grep,
    "head": run_head,
    "hostname": _hostname,
    "jq": run_jq,
    "mv": run_move,
    "nproc": _cores,
    "readlink": run_realpath,
    "realpath": run_realpath,
    "sed": run_sed,
    "seq": run_seq,
    "sort": run_sort,
    "tail": run_tail,
    "tee": run_tee,
    "tr": run_tr,
    "uniq": run_uniq,
    "wc": run_wc,
}
