"""Expected results of a run, from a plain model of the job: visible rows, and the state in the last checkpoint."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from runtime.checkpoint.file_completed_store import FileCompletedStore
from runtime.checkpoint.savepoint_reader import SavepointReader
from runtime.core.ids import JobId
from runtime.testing.memory_file_system import MemoryFileSystem
from tests.simulation.workload import BUCKET_MS, NUM_RULES, SPLITS, WINDOW_MS, Record, all_records, record


@dataclass
class Model:
    """The job, record by record, without any engine."""

    records: set[tuple[str, int]] = field(default_factory=set)
    counts: Counter[int] = field(default_factory=Counter)
    buckets: Counter[tuple[int, int]] = field(default_factory=Counter)
    windows: Counter[tuple[int, int]] = field(default_factory=Counter)
    last: dict[tuple[int, str], int] = field(default_factory=dict)
    numbers: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))


def model(records: Iterable[Record]) -> Model:
    """Return the output for records, in order for each split."""
    result = Model()
    for split, number, key, time_ms, _ in records:
        result.records.add((split, number))
        result.counts[key] += 1
        result.buckets[key, time_ms // BUCKET_MS] += 1
        result.windows[key, time_ms // WINDOW_MS * WINDOW_MS] += 1
        result.last[key, split] = number
        if number % 3 == 0:
            result.numbers[key].append(number)
    return result


EXPECTED = model(all_records())


def read_by(files: dict[str, bytes], root: str, job_id: JobId, uids: str = "") -> Model:
    """Return the expected output of a job that was ended early, for the records it has read.

    What is visible does not say that: with at-least-once barriers there is more of attempts that have failed.

    Args:
        files: the storage as it was when the last checkpoint was recorded.
        root: where the checkpoints of all jobs are.
        job_id: of the job that took it.
        uids: what those of this region's operators begin with.
    """
    reader = _reader(files, root, job_id)
    if reader is None:
        return EXPECTED
    reached: dict[str, int] = {}
    for source in SPLITS:
        for entry in reader.operator_state(f"{uids}verify-{source}", "reached")["value"].to_list():
            split, number = entry.values() if isinstance(entry, dict) else entry
            reached[split] = max(number, reached.get(split, -1))
    return model(record(split, n) for split, last in sorted(reached.items()) for n in range(last + 1))


def check_rows(rows: Iterable[Any], expected: Model, is_exactly_once: bool, has_drained: bool) -> list[str]:
    """Return the errors in the visible rows; empty if there are none.

    Args:
        rows: in any order.
        expected: what must have come.
        is_exactly_once: whether nothing may be there twice.
        has_drained: whether the job was made to end before it had read everything.
    """
    wrong: list[str] = []
    seen: Counter[tuple[str, int]] = Counter()
    counts: dict[int, list[tuple[int, str, int]]] = defaultdict(list)
    buckets: Counter[tuple[int, int]] = Counter()
    windows: dict[tuple[int, int], list[int]] = defaultdict(list)
    ends: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for kind, key, name, number, count in rows:
        match kind:
            case "count":
                seen[name, number] += 1
                counts[key].append((count, name, number))
            case "bucket":
                buckets[key, int(name)] += number
            case "window":
                windows[key, int(name)].append(number)
            case "end":
                ends[key].append((number, count))
            case _:
                wrong.append(f"corrupt: {kind!r} is no kind of row")
    lost = sorted(expected.records - seen.keys())
    if lost:
        wrong.append(f"lost: {len(lost)} records, {lost[:5]}")
    gaps = sorted((name, number) for name, number in expected.records if number and (name, number - 1) not in seen)
    if gaps:
        wrong.append(f"lost: what comes before {gaps[:5]}")
    strange = sorted(seen.keys() - EXPECTED.records)
    if strange:
        wrong.append(f"corrupt: {strange[:5]}")
    low = {k: (buckets[k], n) for k, n in expected.buckets.items() if buckets[k] < n}
    if low:
        wrong.append(f"lost: buckets with too little (seen, expected): {low}")
    small = {k: (max(windows[k], default=0), n) for k, n in expected.windows.items() if max(windows[k], default=0) < n}
    if small:
        wrong.append(f"lost: windows with too little (seen, expected): {small}")
    num_rules = max((rules for given in ends.values() for rules, _ in given), default=0) if has_drained else NUM_RULES
    for key, count in expected.counts.items():
        if not any(rules == num_rules and judged >= count for rules, judged in ends[key]):
            wrong.append(f"lost: the end of key {key}: {ends[key]}, not {(num_rules, count)}")
    if is_exactly_once:
        wrong += _check_once(expected, num_rules, seen, counts, buckets, windows, ends)
    return wrong


def _check_once(
    expected: Model,
    num_rules: int,
    seen: Counter[tuple[str, int]],
    counts: dict[int, list[tuple[int, str, int]]],
    buckets: Counter[tuple[int, int]],
    windows: dict[tuple[int, int], list[int]],
    ends: dict[int, list[tuple[int, int]]],
) -> list[str]:
    wrong: list[str] = []
    twice = sorted(name for name, times in seen.items() if times > 1)
    if twice:
        wrong.append(f"duplicated: {len(twice)} records, {twice[:5]}")
    for key, rows in counts.items():
        rows.sort()
        if [count for count, _, _ in rows] != list(range(1, len(rows) + 1)):
            wrong.append(f"duplicated: key {key} was counted {[count for count, _, _ in rows]}")
        last: dict[str, int] = {}
        for _, split, number in rows:
            if number <= last.get(split, -1):
                wrong.append(f"reordered: key {key}, split {split}: {number} behind {last[split]}")
            last[split] = number
    if buckets != expected.buckets:
        high = {k: (n, expected.buckets[k]) for k, n in buckets.items() if n > expected.buckets[k]}
        wrong.append(f"duplicated: buckets with too much (seen, expected): {high}")
    for window, results in windows.items():
        if len(set(results)) != len(results) or max(results, default=0) > expected.windows[window]:
            wrong.append(f"duplicated: window {window} gave {results}, {expected.windows[window]} is all there is")
    for key, given in ends.items():
        if given != [(num_rules, expected.counts[key])]:
            wrong.append(f"duplicated: key {key} ended with {given}")
    return wrong


def check_state(files: dict[str, bytes], root: str, job_id: JobId, expected: Model, is_exactly_once: bool) -> list[str]:
    """Return the errors in the state of the last checkpoint, which was taken when all tasks had finished.

    Args:
        files: the storage as it was when that checkpoint was recorded.
        root: where the checkpoints of all jobs are.
        job_id: of the job that took it.
        expected: what must have come.
        is_exactly_once: whether state counts everything once; else at least once.
    """
    reader = _reader(files, root, job_id)
    if reader is None:
        return ["the job has ended without a checkpoint"]
    found: dict[str, tuple[Any, Any]] = {
        "count": (_keyed(reader, "account", "count"), dict(expected.counts)),
        "judged": (_keyed(reader, "judge", "judged"), dict(expected.counts)),
    }
    for source in SPLITS:
        num_passed = sum(name.startswith(source) for name, _ in expected.records)
        for name in ("passed", "passed-union"):
            values = reader.operator_state(f"verify-{source}", name)["value"].to_list()
            found[f"{name} of {source}"] = ({0: sum(values)}, {0: num_passed})
    if is_exactly_once:
        numbers = {key: sorted(values) for key, values in _keyed(reader, "account", "numbers").items()}
        found["numbers"] = (numbers, {key: sorted(values) for key, values in expected.numbers.items()})
        buckets = {key: left for key, left in _keyed(reader, "account", "buckets").items() if left}
        found["buckets"] = (buckets, {})
    last = {(key, split): n for key, pairs in _keyed(reader, "account", "last").items() for split, n in _pairs(pairs)}
    found["last"] = (last, expected.last)
    wrong = [
        f"state {name!r} is {given}, not {wanted}"
        for name, (given, wanted) in found.items()
        if (given != wanted if is_exactly_once else _is_less(given, wanted))
    ]
    left = len(reader.timers("account")) + len(reader.timers("judge"))
    return wrong + ([f"{left} timers are left"] if left else [])


def _reader(files: dict[str, bytes], root: str, job_id: JobId) -> SavepointReader | None:
    """Return a reader of the latest checkpoint; None if there is none."""
    storage = MemoryFileSystem()
    storage.files = files
    if not any("/completed/" in name for name in files):
        return None
    retained = FileCompletedStore(root, job_id, 0, storage, "").retained()
    return SavepointReader.read(retained[-1].location, storage) if retained else None


def _keyed(reader: SavepointReader, operator: str, state: str) -> dict[int, Any]:
    frame = reader.keyed_state(operator, state)
    return dict(zip(frame["key"].to_list(), frame["value"].to_list(), strict=True))


def _pairs(entries: Any) -> list[tuple[str, int]]:
    """A map as the reader gives it: a dict, or a list of pairs."""
    if isinstance(entries, dict):
        return list(entries.items())
    return [tuple(entry.values()) if isinstance(entry, dict) else tuple(entry) for entry in entries]


def _is_less(given: dict[Any, int], expected: dict[Any, int]) -> bool:
    return any(given.get(key, -1) < value for key, value in expected.items())
