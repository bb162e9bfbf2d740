"""Compares what a chaos run put out, and its final state, with the model: one number per source says all.

`FileWatch` reads files as they become visible, so that one that changes or vanishes later is found; `compare` judges
the whole at the end. A violation is a line of text; there must be none.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from runtime.checkpoint.savepoint_reader import SavepointReader
from runtime.operators.sink_operator import COMMITTABLES_STATE
from runtime.operators.source_operator import SPLITS_STATE
from tests.chaos.stream import (
    MS_PER_RECORD,
    OUT_FIELDS,
    RECORD,
    RESIDUES,
    SOURCES,
    TIMER,
    TIMER_DELAY_MS,
    checksum,
    key_of,
    number_in_key,
    timer_of,
)

MAX_SHOWN = 5
OutRow = tuple[int, ...]
"""In the order of OUT_FIELDS."""


class FileWatch:
    """Visible files of a directory that must only ever get more.

    Args:
        directory: that a file sink writes to.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._sizes: dict[Path, int] = {}
        self.rows: list[OutRow] = []
        self.violations: list[str] = []

    def read(self) -> int:
        """Take in new files; how many there are in all."""
        current = {path: path.stat().st_size for path in self._directory.rglob("part-*")}
        for path, size in self._sizes.items():
            if current.get(path) != size:
                self.violations.append(f"aborted read: {path.name} had {size} bytes, now {current.get(path)}")
        for path in sorted(current.keys() - self._sizes.keys()):
            self._read_file(path)
        self._sizes = current
        return len(current)

    def hidden(self) -> list[Path]:
        """Files that are not visible."""
        return sorted(self._directory.rglob(".part-*"))

    def _read_file(self, path: Path) -> None:
        last: dict[int, int] = {}
        for line in path.read_text().splitlines():
            try:
                document = json.loads(line)
                row = tuple(int(document[name]) for name in OUT_FIELDS)
            except (ValueError, KeyError):
                self.violations.append(f"corrupt: {path.name} has the line {line[:80]!r}")
                continue
            source, sequence, key, _, _, kind, _, _ = row
            if kind == RECORD:
                if last.get(key, -1) >= sequence:
                    self.violations.append(f"reordered: {path.name}: source {source}, {sequence} after {last[key]}")
                last[key] = sequence
            self.rows.append(row)


def files_held(savepoint: Path) -> set[str]:
    """Paths of the files that a savepoint makes visible for a job that starts from it."""
    reader = SavepointReader.read(str(savepoint))
    held: set[str] = set()
    for operator in reader.metadata.operators:
        states = [subtask.operator_states.get(COMMITTABLES_STATE) for subtask in operator.subtasks]
        if any(states):
            items = reader.operator_state(operator.uid, COMMITTABLES_STATE)["value"]
            held.update(json.loads(item)["committable"].get("temporary", "") for item in items)
    return held


def _uids(reader: SavepointReader, name: str) -> list[str]:
    """Return the uids of the operators of that name: one for each region."""
    return [operator.uid for operator in reader.metadata.operators if operator.uid.partition("-")[0] == name]


def positions_of(savepoint: str) -> dict[int, int]:
    """Return the number of records of each source that a snapshot covers."""
    reader = SavepointReader.read(savepoint)
    positions = dict.fromkeys(range(SOURCES), 0)
    sources = _uids(reader, "source")
    for operator in reader.metadata.operators:
        for subtask in operator.subtasks if operator.uid in sources else ():
            state = subtask.operator_states.get(SPLITS_STATE)
            for item in () if state is None else state.items:
                saved = json.loads(item)
                positions[int(saved["split"])] = int(saved["position"] or 0)
    return positions


def compare(
    name: str, rows: Iterable[OutRow], positions: Mapping[int, int], pending: Collection[tuple[int, int]]
) -> list[str]:
    """Violations in an output, whose job stopped behind a savepoint.

    Args:
        name: of the output.
        rows: all that is visible.
        positions: see `positions_of`.
        pending: see `pending_timers`.
    """
    seen: Counter[tuple[int, int, int]] = Counter()
    tallies: Counter[tuple[int, int]] = Counter()
    violations: list[str] = []
    for row in rows:
        source, sequence, key, number, tally, kind, bad, crc = row
        if crc != checksum(source, sequence) or key != key_of(source, sequence):
            violations.append(f"corrupt: {row}")
        if bad or (kind == RECORD and number != number_in_key(sequence)):
            violations.append(f"reordered: {row}")
        seen[source, sequence, kind] += 1
        if kind == RECORD:
            tallies[source, tally] += 1
    fired = {(source, sequence) for source, sequence, kind in seen if kind == TIMER}
    expected = {(source, sequence, RECORD) for source, count in positions.items() for sequence in range(count)}
    due = {(s, q) for s, count in positions.items() for q in range(count) if timer_of(q) is not None}
    expected |= {(source, sequence, TIMER) for source, sequence in due.difference(pending)}
    violations += [f"lost: {kind_name(kind)} {s}/{q}" for s, q, kind in sorted(expected - seen.keys())]
    violations += [f"not in the input: {kind_name(kind)} {s}/{q}" for s, q, kind in sorted(seen.keys() - expected)]
    violations += [f"duplicated: {kind_name(k)} {s}/{q}, {n} times" for (s, q, k), n in sorted(seen.items()) if n > 1]
    violations += [f"timer fired and still pending: {s}/{q}" for s, q in sorted(fired.intersection(pending))]
    for source, count in positions.items():
        wrong = {tally for of, tally in tallies if of == source} ^ set(range(1, count + 1))
        if wrong:
            violations.append(f"lost: source {source} was not counted 1..{count}: {sorted(wrong)[:MAX_SHOWN]}")
    return [f"{name}: {line}" for line in violations]


def compare_state(positions: Mapping[int, int], savepoint: str) -> list[str]:
    """Violations in the state of a savepoint: keyed and operator state, and timers."""
    reader = SavepointReader.read(savepoint)
    counts = _values(reader, "ledger", "count")
    expected = {}
    for source, position in positions.items():
        for residue in range(min(RESIDUES, position)):
            expected[key_of(source, residue)] = (position - residue + RESIDUES - 1) // RESIDUES
    totals = _values(reader, "tally", "total")
    violations = compare_timers(positions, pending_timers(savepoint))
    if counts != expected:
        wrong = sorted(k for k in counts.keys() | expected.keys() if counts.get(k) != expected.get(k))
        violations.append(f"state: counts of keys {wrong[:MAX_SHOWN]} differ from the model")
    if totals != {source: position for source, position in positions.items() if position}:
        violations.append(f"state: totals {totals} are not {dict(positions)}")
    for name in ("counted", "counted by all"):
        counted = sum(sum(reader.operator_state(uid, name)["value"].to_list()) for uid in _uids(reader, "check"))
        if counted != sum(positions.values()):
            violations.append(f"state: {name}: {counted} records instead of {sum(positions.values())}")
    for uid in _uids(reader, "tally"):
        rules: dict[int, list[tuple[int, int]]] = {}
        for row in reader.operator_state(uid, "rules").iter_rows(named=True):
            rules.setdefault(row["subtask"], []).append((row["key"], row["value"]))
        if len({tuple(sorted(items)) for items in rules.values()}) > 1:
            violations.append(f"state: broadcast state differs between subtasks of {uid}: {rules}")
    return violations


def _values(reader: SavepointReader, name: str, state: str) -> dict[int, int]:
    """Return the values by key, of all regions."""
    return {
        row["key"]: row["value"]
        for uid in _uids(reader, name)
        for row in reader.keyed_state(uid, state).iter_rows(named=True)
    }


def compare_timers(positions: Mapping[int, int], pending: Collection[tuple[int, int]]) -> list[str]:
    """Violations in the timers of a savepoint: they go off in order, so of each key the last ones are left.

    Args:
        positions: see `positions_of`.
        pending: see `pending_timers`.
    """
    violations = []
    for source, position in positions.items():
        for residue in range(RESIDUES):
            due = [q for q in range(residue, position, RESIDUES) if timer_of(q) is not None]
            left = sorted(q for s, q in pending if s == source and q % RESIDUES == residue)
            if left != due[max(0, len(due) - len(left)) :]:
                key = key_of(source, residue)
                violations.append(f"state: timers of {left[:MAX_SHOWN]} of key {key} are not the last of {due[-9:]}")
    return violations


def tally_of(violations: Sequence[str]) -> str:
    """Count the violations of each kind."""
    kinds = Counter(re.sub("^(files|table|topic): ", "", line).partition(":")[0] for line in violations)
    return ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items())) or "none"


def kind_name(kind: int) -> str:
    return "record" if kind == RECORD else "timer"


def pending_timers(savepoint: str) -> set[tuple[int, int]]:
    """(source, sequence) of the records whose timers have not gone off, in a snapshot."""
    reader = SavepointReader.read(savepoint)
    return {
        (int(row["key"]) % SOURCES, (int(row["timestamp"]) - TIMER_DELAY_MS) // MS_PER_RECORD)
        for uid in _uids(reader, "ledger")
        for row in reader.timers(uid).iter_rows(named=True)
    }
