"""What a run of `make bench` found: as a table for people, as JSON for programs."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

import psutil

PACKAGES = ("pyspark", "pyarrow", "polars", "numpy", "cloudpickle")


@dataclass(frozen=True)
class Measurement:
    """One loop or job over the whole file."""

    case: str
    """filter | count"""
    subject: str
    """tidemark | python | polars"""
    rows_in: int
    rows_out: int
    seconds: float
    start_seconds: float = 0.0
    """Time before the first and after the last record that is not in `seconds`; the engine's only."""

    @property
    def rows_per_second(self) -> float:
        return self.rows_in / self.seconds


def machine() -> dict[str, Any]:
    """The machine, the versions and the commit that the numbers belong to."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "cpus": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": platform.system() + " " + platform.machine(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "commit": commit.stdout.strip() or None,
    }


def ratio(measurements: Sequence[Measurement], case: str, reference: str) -> float:
    """The engine's rows per second over the reference's."""
    of = {m.subject: m.rows_per_second for m in measurements if m.case == case}
    return of["tidemark"] / of[reference]


def table(measurements: Sequence[Measurement]) -> str:
    """The measurements as a Markdown table."""
    lines = [
        "| case | loop | rows out | seconds | rows/s | Tidemark / loop |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for m in measurements:
        share = "" if m.subject == "tidemark" else f"{ratio(measurements, m.case, m.subject):.2f}"
        lines.append(
            f"| {m.case} | {m.subject} | {m.rows_out:,} | {m.seconds:.2f} | {m.rows_per_second:,.0f} | {share} |"
        )
    return "\n".join(lines)


def document(measurements: Sequence[Measurement], rows: int, slots: int, execution: str) -> dict[str, Any]:
    """The run as a JSON-serializable value."""
    return {
        "rows": rows,
        "slots": slots,
        "execution": execution,
        "machine": machine(),
        "measurements": [asdict(m) | {"rows_per_second": round(m.rows_per_second)} for m in measurements],
    }


def page(run: dict[str, Any], measurements: Sequence[Measurement]) -> str:
    """docs/performance.md."""
    where = run["machine"]
    packages = ", ".join(f"{name} {number}" for name, number in where["packages"].items())
    starts = ", ".join(f"{m.case} {m.start_seconds:.1f} s" for m in measurements if m.subject == "tidemark")
    return f"""# Performance

Written by `make bench`; the README says what is measured and what is not.

{run["rows"]:,} NDJSON bids, {run["slots"]} slots on {run["execution"]}; reference loops in {run["slots"]} processes.
{where["cpus"]} CPUs, {where["memory_gib"]} GiB, {where["system"]}; Python {where["python"]}, {packages};
commit {where["commit"]}.

{table(measurements)}

Seconds are wall-clock time: of a job its net runtime as it reports it (`get_net_runtime`), of a loop without the start
of its processes. The rest of `execute()`, not counted: {starts}.
"""
