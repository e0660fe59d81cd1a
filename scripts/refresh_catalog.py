"""Takes new versions of the catalog's tables from a folder: `python scripts/refresh_catalog.py FOLDER`.

FOLDER holds hardware.csv, instances.csv and models.csv as the measurements are kept; the catalog's tables have
whole-word column names with units. Rows that the folder lacks stay as they are. A row carries its source, and whether
that was checked.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import NamedTuple

DATA = Path(__file__).parent.parent / "dtlint" / "catalog" / "data"


class Table(NamedTuple):
    """A file of the folder, the catalog's file, and the columns that get another name ("" leaves a column out)."""

    taken: str
    kept: str
    renamed: Mapping[str, str]


TABLES = (
    Table(
        "hardware.csv",
        "gpus.csv",
        {
            "memory_bw_gbps": "memory_bandwidth_gb_per_s",
            "intra_link": "intranode_link",
            "intra_gbps_per_gpu_unidir": "intranode_gb_per_s",
            "typical_node": "gpus_per_node",
            "measured_gemm_tflops_bf16": "measured_gemm_tflops",
            "measured_gemm_tflops_fp8": "measured_fp8_gemm_tflops",
            "measured_allreduce_busbw_gbps_node": "measured_allreduce_gb_per_s",
        },
    ),
    Table("instances.csv", "instances.csv", {"network_gbps_per_node": "network_gbit_per_s"}),
    Table(
        "models.csv",
        "models.csv",
        {
            "published_params_b": "published_parameters_billion",
            "active_params_b": "active_parameters_billion",
            "computed_params_b": "computed_parameters_billion",
        },
    ),
)


def main(folder: Path) -> None:
    """Rewrite the catalog's tables from `folder`."""
    for table in TABLES:
        taken = _read(folder / table.taken)
        rows = [{table.renamed.get(column, column): cell for column, cell in row.items()} for row in taken]
        _write(DATA / table.kept, _with_kept_rows(rows, _read(DATA / table.kept)))


def _with_kept_rows(rows: list[dict[str, str]], before: list[dict[str, str]]) -> list[dict[str, str]]:
    """The new rows with the date that a row last changed, then the rows that only the catalog has."""
    earlier = {row["name"]: row for row in before}
    dated = [row | {"changed": _changed(row, earlier.get(row["name"]))} for row in rows]
    names = {row["name"] for row in rows}
    return dated + [row for row in before if row["name"] not in names]


def _changed(row: dict[str, str], before: dict[str, str] | None) -> str:
    if before is not None and row == {column: cell for column, cell in before.items() if column != "changed"}:
        return before["changed"]
    return date.today().isoformat()


def _read(file: Path) -> list[dict[str, str]]:
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def _write(file: Path, rows: list[dict[str, str]]) -> None:
    with file.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.DictWriter(lines, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
