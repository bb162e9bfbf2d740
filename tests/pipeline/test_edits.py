"""Property: the report before a redeploy says what the restore does, for pairs of pipelines made at random.

What is kept gives what a run without a stop gives, where the edit does not matter.
"""

from __future__ import annotations

import pickle
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from runtime.checkpoint.compatibility import Verdict, compatibility
from runtime.checkpoint.handles import CheckpointMetadata
from runtime.checkpoint.state_fates import Fate
from runtime.common import Row, RowKind
from runtime.graph.codec import job_graph_from_json, job_graph_to_json
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.job_state import JobState
from runtime.pipeline import load_catalog
from runtime.testing.collecting_sink import collected_records
from runtime.testing.modes import canonical_text
from tests.checkpoint.running_jobs import JobClock
from tests.pipeline.edits import Best, graph_with, pair_of, restored, run_to_the_end, savepoint_of, told

CATALOG = load_catalog([])
#: in `make test`: another uid, another type of node, another form of Python state, fewer best rows, a filter
FEW = (13, 11, 8, 25, 28)
MANY = 200


def checked(number: int, directory: Path) -> str:
    """Check a pair; returns the edit and what became of it."""
    pair, clock = pair_of(number, CATALOG, directory), JobClock()
    collects = pair.collects()
    location, before = savepoint_of(pair.before, clock, directory, collects)
    emitted = {place: collected_records(to) for place, to in collects.items()}
    files = {place: visible_in(to) for place, to in collects.items()}
    # a graph comes out of a database
    after = job_graph_from_json(job_graph_to_json(graph_with(pair.after, {}, collects)))
    answer = told(location, after)
    check_declarations(answer.metadata, before)
    report = answer.report
    _, end = restored(pair.after, clock, directory, location, collects, leaves_behind=True)
    where = (number, pair.edit, end, report)
    if not report.is_restorable:
        assert end.state is JobState.FAILED, where
        return f"{pair.edit}: refused"
    if end.state is JobState.FAILED and "was saved as" not in end.failures[-1]:
        # the edit made a program that cannot run, whatever it restores: user code that returns another type, say
        anew = run_to_the_end(pair.after, JobClock(), directory, {})
        assert anew.state is JobState.FAILED and _place(anew.failures[-1]) == _place(end.failures[-1]), (where, anew)
        return f"{pair.edit}: fails from its beginning, too"
    if end.state is JobState.FAILED:
        # only what no report can know may be refused later
        assert answer.is_unsure, where
        return f"{pair.edit}: refused when opened"
    assert end.state is JobState.FINISHED, where
    if report.loses_state:
        _, without = restored(pair.after, clock, directory, location, collects, leaves_behind=False)
        assert without.state is JobState.FAILED, where
        lost = [line for line in report.operators if line.verdict is Verdict.LOST]
        assert all(f"(uid {line.uid})" in without.failures[-1] for line in lost), where
        return f"{pair.edit}: lost"
    for place, to in collects.items():
        later = sorted(visible_in(to) - files[place])
        emitted[place] += [row for file in later for row in pickle.loads(file.read_bytes())]
    for best in pair.best:
        check_best(best, emitted[best.node, "out"])
    if pair.same:
        undisturbed = {place: directory / f"undisturbed-{'-'.join(place)}" for place in pair.same}
        whole = run_to_the_end(pair.after, JobClock(), directory, undisturbed)
        assert whole.state is JobState.FINISHED, (where, whole)
        for place, to in undisturbed.items():
            found, expected = counted(emitted[place]), counted(collected_records(to))
            assert found == expected, (number, pair.edit, place, expected - found, found - expected)
    return f"{pair.edit}: kept"


def _place(failure: str) -> str:
    """Return which operator has failed in what; not with which record, at which subtask."""
    return re.sub(r" \(subtask \d+/\d+\)", "", failure.partition(" on record ")[0])


def counted(values: Sequence[Any]) -> Counter[str]:
    """Return what stands of values after all changes, whatever the order of their columns.

    Not the changes themselves: results of a window come in no order, and those in between depend on it.
    """
    standing: Counter[str] = Counter()
    for value in values:
        if isinstance(value, Row):
            is_added = value.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER)
            standing[canonical_text(value.as_dict())] += 1 if is_added else -1
        else:
            standing[canonical_text(value)] += 1
    return Counter({text: number for text, number in standing.items() if number})


def visible_in(directory: Path) -> set[Path]:
    """Return the files of a CollectingSink's records."""
    return set(directory.glob("*.records"))


def check_best(best: Best, changes: Sequence[Row]) -> None:
    """Check that a top-N takes back only what stands, and lets no more rows of a key stand than it should."""
    standing: Counter[str] = Counter()
    keys: dict[str, str] = {}
    for change in changes:
        text = canonical_text(change.as_dict())
        keys[text] = canonical_text([change[key] for key in best.keys])
        is_added = change.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER)
        standing[text] += 1 if is_added else -1
        assert standing[text] >= 0, (best, change)
    rows = Counter(keys[text] for text in standing.elements())
    assert all(number <= best.n for number in rows.values()), (best, standing)


def check_declarations(metadata: CheckpointMetadata, graph: JobGraph) -> None:
    """Check that operators save what they declare: nothing of a job's own savepoint is lost or refused."""
    same = compatibility(metadata, graph)
    bad = [line for line in same.operators if line.verdict not in (Verdict.KEPT, Verdict.UNKNOWN)]
    assert not bad, bad
    # what is declared is asked for when the operator is opened: where anything was saved, "empty" would be a wrong name
    with_keys = {state.uid for state in metadata.operators if any(s.keyed is not None for s in state.subtasks)}
    for line in same.operators:
        allowed = {Fate.KEPT, Fate.UNKNOWN} | (set() if line.uid in with_keys else {Fate.EMPTY})
        assert {state.fate for state in line.states} <= allowed, line


@pytest.mark.parametrize("number", FEW)
def test_the_report_says_what_the_restore_does(number: int, tmp_path: Path) -> None:
    checked(number, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [number for number in range(MANY) if number not in FEW])
def test_two_hundred_reports_say_what_the_restore_does(number: int, tmp_path: Path) -> None:
    checked(number, tmp_path)
