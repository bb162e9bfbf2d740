"""Redistributes an operator's state to a new number of subtasks. Pure; nothing is decoded.

Keyed state follows its key groups, operator state its mode, and the event-time clock is the minimum of all, so that no
subtask closes a window that another still had open.
Source: Flink, StateAssignmentOperation, RoundRobinOperatorStateRepartitioner.
"""

from __future__ import annotations

from collections.abc import Sequence

from runtime.core.ids import KeyGroup
from runtime.state.errors import RedistributionError
from runtime.state.key_groups import check_parallelism, operator_index_for_key_group
from runtime.state.snapshot import (
    KeyedSnapshot,
    KeyGroupSnapshot,
    OperatorSnapshot,
    OperatorStateSnapshot,
    Redistribution,
    StateMeta,
)


def redistribute(
    snapshots: Sequence[OperatorSnapshot], parallelism: int, max_parallelism: int
) -> list[OperatorSnapshot]:
    """Return the state that each subtask of the new parallelism restores.

    Args:
        snapshots: one per subtask of the old parallelism, in order; may be empty.
        parallelism: new number of subtasks.
        max_parallelism: number of key groups; that of the snapshots.

    Returns:
        One snapshot per new subtask, in order. Subtasks without keyed state have the metas but no key groups.

    Raises:
        KeyGroupRangeError: parallelism is not in 1..max_parallelism.
        RedistributionError: the snapshots contradict each other or have another max parallelism.
    """
    check_parallelism(max_parallelism, parallelism)
    keyed = _redistribute_keyed([s.keyed for s in snapshots if s.keyed is not None], parallelism, max_parallelism)
    operator_states = _redistribute_operator_states(snapshots, parallelism)
    watermark = min((s.watermark for s in snapshots), default=OperatorSnapshot().watermark)
    return [OperatorSnapshot(keyed[i], operator_states[i], watermark) for i in range(parallelism)]


def _redistribute_keyed(
    snapshots: Sequence[KeyedSnapshot], parallelism: int, max_parallelism: int
) -> Sequence[KeyedSnapshot | None]:
    if not snapshots:
        return [None] * parallelism
    metas: dict[str, StateMeta] = {}
    groups: list[dict[KeyGroup, KeyGroupSnapshot]] = [{} for _ in range(parallelism)]
    for snapshot in snapshots:
        if snapshot.max_parallelism != max_parallelism:
            raise RedistributionError(
                f"state was saved with max parallelism {snapshot.max_parallelism} and cannot be restored with "
                f"{max_parallelism}: set the max parallelism that it was saved with"
            )
        for name, meta in snapshot.metas.items():
            if metas.setdefault(name, meta) != meta:
                raise RedistributionError(
                    f"subtasks saved state {name!r} differently: {metas[name].describe()}, {meta.describe()}"
                )
        for key_group, group in snapshot.groups.items():
            if not 0 <= key_group < max_parallelism:
                raise RedistributionError(f"there is no key group {key_group} with max parallelism {max_parallelism}")
            target = groups[operator_index_for_key_group(max_parallelism, parallelism, key_group)]
            if key_group in target:
                raise RedistributionError(f"two subtasks saved key group {key_group}")
            target[key_group] = group
    return [KeyedSnapshot(max_parallelism, metas, dict(sorted(mine.items()))) for mine in groups]


def _redistribute_operator_states(
    snapshots: Sequence[OperatorSnapshot], parallelism: int
) -> list[dict[str, OperatorStateSnapshot]]:
    dealt: list[dict[str, OperatorStateSnapshot]] = [{} for _ in range(parallelism)]
    for name in dict.fromkeys(name for snapshot in snapshots for name in snapshot.operator_states):
        states = [s.operator_states[name] for s in snapshots if name in s.operator_states]
        mode, serializer = states[0].mode, states[0].serializer
        if any(state.mode is not mode or state.serializer != serializer for state in states):
            raise RedistributionError(f"subtasks saved operator state {name!r} in different ways")
        keeps_parallelism = len(states) == len(snapshots) == parallelism
        for index, items in enumerate(_deal([state.items for state in states], mode, parallelism, keeps_parallelism)):
            dealt[index][name] = OperatorStateSnapshot(mode, items, serializer)
    return dealt


def _deal(
    items: Sequence[Sequence[bytes]], mode: Redistribution, parallelism: int, keeps_parallelism: bool
) -> list[Sequence[bytes]]:
    """Distribute the items of the old subtasks to the new ones."""
    if mode is Redistribution.BROADCAST:
        return [items[index % len(items)] for index in range(parallelism)]
    if mode is Redistribution.SPLIT and keeps_parallelism:
        return list(items)
    together = [item for of_subtask in items for item in of_subtask]
    if mode is Redistribution.UNION:
        return [together] * parallelism
    return [together[index::parallelism] for index in range(parallelism)]
