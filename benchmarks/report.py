"""Reports of a benchmark run: a table for people, JSON for programs."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from benchmarks.measure import CPU, Measured, Options, Target, Verdict

PACKAGES = ("pyspark", "pyarrow", "polars", "numpy", "cloudpickle")


def machine() -> dict[str, Any]:
    """Return the machine, the versions and the commit of the measurements."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "cpus": os.cpu_count(),
        "processor": _processor(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "load_before": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "commit": commit.stdout.strip() or None,
    }


def document(machine_before: dict[str, Any], options: Options, measured: Sequence[Measured]) -> dict[str, Any]:
    """Return the run as a JSON-serializable value, with every repeat."""
    return {
        "machine": machine_before,
        "slots": options.slots,
        "execution": options.execution,
        "repeats": options.repeats,
        "scale": options.scale,
        "quick": options.quick,
        "works": [_work(found) for found in measured],
    }


def table(measured: Sequence[Measured], with_targets: bool = True) -> str:
    """Return the medians as a Markdown table: a line per contestant, then the targets.

    Args:
        measured: at least one work.
        with_targets: whether to include targets; they mean nothing for tiny sizes.
    """
    lines = ["| work | contestant | rows | seconds | spread | CPU s | rows/s |", "|---|---|--:|--:|--:|--:|--:|"]
    for found in measured:
        for name, outcomes in found.outcomes.items():
            seconds = sorted(outcome.seconds for outcome in outcomes)
            cpu = f"{found.detail(name, CPU):.2f}" if CPU in outcomes[0].details else ""
            lines.append(
                f"| {found.work.name} | {name} | {outcomes[0].rows_in:,} | {found.median_seconds(name):.3f} | "
                f"{seconds[0]:.2f}–{seconds[-1]:.2f} | {cpu} | {found.rows_per_second(name):,.0f} |"
            )
    verdicts = [(found.work.name, verdict) for found in measured for verdict in found.verdicts()]
    if verdicts and with_targets:
        lines += ["", "| work | figure | target | measured | |", "|---|---|--:|--:|---|"]
        lines += [
            f"| {work} | {figure_text(verdict.target)} | {target_text(verdict.target)} | {_number(verdict.measured)} | "
            f"{'reached' if verdict.reached else '**missed**'} |"
            for work, verdict in verdicts
        ]
    return "\n".join(lines)


def figure_text(target: Target) -> str:
    """Return the name of the judged figure: "tidemark / polars by hand", for example."""
    if target.figure == "ratio":
        return f"{target.subject} / {target.against}"
    return f"{target.subject}: {target.figure.replace('_', ' ')}"


def target_text(target: Target) -> str:
    """Return the bound: "≥ 0.85", for example."""
    return f"≥ {_number(target.at_least)}" if target.at_least is not None else f"≤ {_number(target.at_most or 0.0)}"


def _work(found: Measured) -> dict[str, Any]:
    return {
        "name": found.work.name,
        "text": found.work.text,
        "compared": found.work.compared,
        "contestants": {
            name: {
                "median_seconds": found.median_seconds(name),
                "rows_per_second": round(found.rows_per_second(name)),
                "repeats": [
                    {
                        "seconds": outcome.seconds,
                        "beside_seconds": outcome.beside_seconds,
                        "rows": outcome.rows_in,
                        **outcome.details,
                    }
                    for outcome in outcomes
                ],
            }
            for name, outcomes in found.outcomes.items()
        },
        "targets": [_verdict(verdict) for verdict in found.verdicts()],
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {**asdict(verdict.target), "measured": verdict.measured, "reached": verdict.reached}


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2f}"


def _processor() -> str:
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as lines:
            return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
