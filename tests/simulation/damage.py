"""Output that sinks show twice after a restore of the checkpoint before a damaged one; nothing else may be repeated.

A sink commits what it has prepared once a checkpoint holds it. If that checkpoint turns out to be damaged, the job goes
on from an older one and writes the same again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from runtime.checkpoint.handles import CheckpointMetadata
from runtime.operators.sink_operator import COMMITTABLES_STATE, WRITER_STATE


@dataclass(frozen=True, slots=True)
class Output:
    """Output of sinks that a checkpoint holds, and an older one does not."""

    transactions: frozenset[str]
    files: Mapping[str, int]
    """By the name that a commit gives the file: from which byte on."""


def output_since(newest: CheckpointMetadata, older: CheckpointMetadata) -> Output:
    """Return the output committed with one checkpoint but not with an older one."""
    # files that were begun before the older one go on behind what it holds of them
    begun = {item["temporary"]: item["bytes"] for item in _items(older, WRITER_STATE)}
    transactions: set[str] = set()
    files: dict[str, int] = {}
    for item in _items(newest, COMMITTABLES_STATE):
        committable = item["committable"]
        if item["checkpoint"] <= older.checkpoint_id:
            continue
        if "id" in committable:
            transactions.add(committable["id"])
        else:
            files[committable["target"]] = begun.get(committable["temporary"], 0)
    return Output(frozenset(transactions), files)


def _items(metadata: CheckpointMetadata, state: str) -> Iterator[Any]:
    for operator in metadata.operators:
        for subtask in operator.subtasks:
            if state in subtask.operator_states:
                yield from map(json.loads, subtask.operator_states[state].items)
