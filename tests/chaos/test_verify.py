"""The judge of a chaos run finds every kind of violation, and none where there is none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos.stream import OUT_FIELDS, RECORD, SOURCES, TIMER, checksum, key_of, number_in_key, timer_of
from tests.chaos.verify import FileWatch, OutRow, compare, compare_timers

POSITIONS = dict.fromkeys(range(SOURCES), 100)
PENDING = {(source, 89) for source in range(SOURCES)}
"""Of the last record with a timer of its key."""


def row(source: int, sequence: int, kind: int = RECORD) -> OutRow:
    number, tally = (number_in_key(sequence), sequence + 1) if kind == RECORD else (0, 0)
    return source, sequence, key_of(source, sequence), number, tally, kind, 0, checksum(source, sequence)


def right_rows() -> list[OutRow]:
    rows = [row(source, sequence) for source, count in POSITIONS.items() for sequence in range(count)]
    timers = [(s, q) for s, count in POSITIONS.items() for q in range(count) if timer_of(q) is not None]
    return rows + [row(source, sequence, TIMER) for source, sequence in timers if (source, sequence) not in PENDING]


def kinds(rows: list[OutRow]) -> set[str]:
    return {line.split(": ")[1] for line in compare("out", rows, POSITIONS, PENDING)}


def test_what_is_right_is_no_violation() -> None:
    assert kinds(right_rows()) == set()


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        (lambda rows: rows.pop(50), "lost"),
        (lambda rows: rows.pop(), "lost"),
        (lambda rows: rows.append(rows[50]), "duplicated"),
        (lambda rows: rows.append(rows[-1]), "duplicated"),
        (lambda rows: rows.append(row(3, 100)), "not in the input"),
        (lambda rows: rows.append((*row(3, 7)[:-1], 1)), "corrupt"),
        (lambda rows: rows.append((*row(3, 7)[:-2], 1, checksum(3, 7))), "reordered"),
    ],
)
def test_each_kind_of_violation_is_found(spoil: Callable[[list[OutRow]], object], kind: str) -> None:
    rows = right_rows()
    spoil(rows)
    assert kind in kinds(rows)


def test_a_timer_that_fired_and_is_still_pending_is_found() -> None:
    pending = next((s, q) for s in range(SOURCES) for q in range(100) if timer_of(q) is not None)
    assert any("still pending" in line for line in compare("out", right_rows(), POSITIONS, PENDING | {pending}))


def test_timers_in_state_are_the_last_ones_of_their_keys() -> None:
    assert compare_timers(POSITIONS, PENDING) == []
    assert compare_timers(POSITIONS, PENDING | {(0, 59)}) == []
    for wrong in ((PENDING - {(0, 89)}) | {(0, 59)}, PENDING | {(0, 29)}, PENDING | {(0, 119)}, PENDING | {(0, 1)}):
        assert len(compare_timers(POSITIONS, wrong)) == 1


def write(path: Path, *rows: OutRow) -> None:
    lines = [json.dumps(dict(zip(OUT_FIELDS, numbers, strict=True))) for numbers in rows]
    path.write_text("\n".join(lines) + "\n")


def test_a_visible_file_that_changes_vanishes_or_is_out_of_order_is_found(tmp_path: Path) -> None:
    watch = FileWatch(tmp_path)
    write(tmp_path / "part-0", row(0, 0), row(0, 6))
    write(tmp_path / "part-1", row(1, 0))
    assert watch.read() == 2
    assert watch.violations == []
    write(tmp_path / "part-0", row(0, 0))
    (tmp_path / "part-1").unlink()
    write(tmp_path / "part-2", row(2, 6), row(2, 0))
    (tmp_path / "part-3").write_text("{")
    watch.read()
    assert sorted(line.split(":")[0] for line in watch.violations) == [
        "aborted read",
        "aborted read",
        "corrupt",
        "reordered",
    ]
