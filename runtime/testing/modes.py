"""assert_same_result_in_all_modes: a job must deliver the same however it is run.

Results are compared as text that tells values apart by type as well (1, 1.0 and True differ), after sorting what has no
order of its own; a stream has none across subtasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from runtime.testing.jobs import ALL_MODES, BuildJob, JobMode, run_job

__all__ = ["assert_same_result_in_all_modes", "canonical_text", "describe_difference"]

_SHOWN = 10
"""Number of records that a message shows of each kind of difference."""


def assert_same_result_in_all_modes(
    build_job: BuildJob,
    *,
    modes: Sequence[JobMode] | None = None,
    parallelisms: Sequence[int] = (1, 2),
    ordered: bool = False,
    options: Mapping[str, str] | None = None,
    timeout_s: float = 120.0,
) -> list[list[Any]]:
    """Run a job in every mode at every parallelism, and check that all deliver what the first of them does.

    Args:
        build_job: writes the job into an environment and returns the stream or streams to compare; called for each run.
        modes: kinds of execution; None = ALL_MODES. Name modes only in order to leave one out.
        parallelisms: of operators that set none.
        ordered: whether the order counts too; it is defined where the last operator has parallelism 1.
        options: of the job.
        timeout_s: seconds of real time for each run.

    Returns:
        What each stream has delivered in the first run, for the test to compare with what it expects.

    Raises:
        AssertionError: a run differs; the message says in what, for each run that does.
        JobExecutionError: a run failed; its note says which.
        TimeoutError: likewise.
    """
    runs = [(mode, parallelism) for mode in (ALL_MODES if modes is None else modes) for parallelism in parallelisms]
    if not runs:
        raise ValueError("there is no mode, or no parallelism, to run the job with")
    results: list[Sequence[list[Any]]] = []
    for mode, parallelism in runs:
        try:
            run = run_job(build_job, parallelism=parallelism, mode=mode, options=options, timeout_s=timeout_s)
        except Exception as error:
            error.add_note(f"in mode {mode.name}, parallelism {parallelism}")
            raise
        results.append(run.outputs)
    expected = results[0]
    if not expected:
        raise ValueError("the job has returned no stream to compare: build_job must return one or several")
    found: list[str] = []
    for (mode, parallelism), got in zip(runs[1:], results[1:], strict=True):
        for index, (want_records, got_records) in enumerate(zip(expected, got, strict=True)):
            difference = describe_difference(want_records, got_records, ordered)
            if difference:
                stream = f", stream {index}" if len(expected) > 1 else ""
                found.append(f"{mode.name}, parallelism {parallelism}{stream}:\n{difference}")
    if found:
        mode, parallelism = runs[0]
        raise AssertionError(
            f"these runs deliver other records than {mode.name}, parallelism {parallelism}:\n" + "\n".join(found)
        )
    return [list(records) for records in expected]


def describe_difference(expected: Sequence[Any], got: Sequence[Any], ordered: bool = False) -> str:
    """Describe for people what is missing from `got` and what is extra; empty if nothing is.

    Args:
        expected: records.
        got: records.
        ordered: whether the order counts too.
    """
    want, have = [canonical_text(value) for value in expected], [canonical_text(value) for value in got]
    missing, extra = Counter(want), Counter(have)
    missing.subtract(have)
    extra.subtract(want)
    lines = [*_listed("missing", +missing), *_listed("extra", +extra)]
    if not lines and ordered and want != have:
        first = next(index for index, (a, b) in enumerate(zip(want, have, strict=True)) if a != b)
        lines = [f"  out of order from record {first} on: expected {want[first]}, got {have[first]}"]
    return "\n".join(lines)


def _listed(what: str, records: Counter[str]) -> list[str]:
    lines = [
        f"  {what}: {text}" + (f"  ({count} times)" if count > 1 else "")
        for text, count in sorted(records.items())[:_SHOWN]
    ]
    if len(records) > _SHOWN:
        lines.append(f"  {what}: {len(records) - _SHOWN} more")
    return lines


def canonical_text(value: Any) -> str:
    """Return a text that is the same for equal values of the same types, in whichever process they were made."""
    if isinstance(value, dict):
        pairs = sorted(f"{canonical_text(key)}: {canonical_text(item)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, set | frozenset):
        return f"{type(value).__name__}({', '.join(sorted(map(canonical_text, value)))})"
    if type(value) is list:
        return "[" + ", ".join(map(canonical_text, value)) + "]"
    if type(value) is tuple:
        return "(" + ", ".join(map(canonical_text, value)) + ("," if len(value) == 1 else "") + ")"
    if hasattr(value, "tolist"):
        # numpy's: their repr leaves out the middle of a long array
        return f"{type(value).__name__}({canonical_text(value.tolist())})"
    text = repr(value)
    if f" object at {hex(id(value))}" in text:
        # what Python gives by itself has an address in it
        slots = [slot for kind in type(value).__mro__ for slot in getattr(kind, "__slots__", ())]
        fields = {name: getattr(value, name) for name in [*getattr(value, "__dict__", ()), *slots] if name[:2] != "__"}
        return f"{type(value).__qualname__}({canonical_text(fields)})"
    return text
