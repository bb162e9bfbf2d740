"""Key groups: the units in which keyed state is assigned to subtasks, and moved when the parallelism changes.

Pure arithmetic, any thread. The number of key groups is the operator's max parallelism; a key's group comes from its
canonical encoding, so it is the same in every process and version.
Source: Flink, KeyGroupRangeAssignment, KeyGroupRange.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from runtime.core.ids import KeyGroup
from runtime.core.keys import key_hash
from runtime.state.errors import KeyGroupRangeError

MAX_MAX_PARALLELISM = 1 << 15
"""Maximum number of key groups of a job: a key group fits an int16."""
DEFAULT_LOWER_BOUND_MAX_PARALLELISM = 1 << 7
"""Minimum default number of key groups, so that a small job can still grow."""


@dataclass(frozen=True, slots=True)
class KeyGroupRange:
    """The key groups `start` to `end`, both inclusive, that one subtask owns; never empty."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end < MAX_MAX_PARALLELISM:
            raise KeyGroupRangeError(f"not a range of key groups: {self.start} to {self.end}")

    def __contains__(self, key_group: object) -> bool:
        return isinstance(key_group, int) and self.start <= key_group <= self.end

    def __len__(self) -> int:
        return self.end - self.start + 1

    def __str__(self) -> str:
        return f"{self.start}..{self.end}"


def check_max_parallelism(max_parallelism: int) -> None:
    """Raise KeyGroupRangeError unless `max_parallelism` is in 1..32768."""
    if not 1 <= max_parallelism <= MAX_MAX_PARALLELISM:
        raise KeyGroupRangeError(f"max parallelism must be in 1..{MAX_MAX_PARALLELISM}, not {max_parallelism}")


def check_parallelism(max_parallelism: int, parallelism: int) -> None:
    """Raise KeyGroupRangeError unless 1 <= `parallelism` <= `max_parallelism` <= 32768."""
    check_max_parallelism(max_parallelism)
    if not 1 <= parallelism <= max_parallelism:
        raise KeyGroupRangeError(
            f"parallelism {parallelism} must be in 1..{max_parallelism}, the max parallelism (number of key groups)"
        )


def default_max_parallelism(parallelism: int) -> int:
    """Return the number of key groups of an operator for which the user chose none: 1.5 × the parallelism, rounded up
    to a power of two, within 128..32768.

    Raises:
        KeyGroupRangeError: `parallelism` is not in 1..32768.
    """
    check_max_parallelism(parallelism)
    wanted = parallelism + parallelism // 2
    return min(max(1 << (wanted - 1).bit_length(), DEFAULT_LOWER_BOUND_MAX_PARALLELISM), MAX_MAX_PARALLELISM)


def key_group_of(encoded_key: bytes, max_parallelism: int) -> KeyGroup:
    """Return the key group of a canonically encoded key (`runtime.core.keys.encode_key`). `max_parallelism` is
    unchecked.
    """
    # without KeyGroup(): a NewType is a call, and this runs for every new key
    return key_hash(encoded_key) % max_parallelism  # type: ignore[return-value]


def assign_key_groups(key_hashes: npt.NDArray[np.uint32], max_parallelism: int) -> npt.NDArray[np.int16]:
    """Map each key hash to its key group.

    Args:
        key_hashes: shape (n,), uint32, as `runtime.core.keys.key_hash` gives them; any order.
        max_parallelism: number of key groups, 1..32768; fixed for the life of the job's state.

    Returns:
        Shape (n,), int16, each in [0, max_parallelism).

    Raises:
        KeyGroupRangeError: max_parallelism is outside 1..32768.
    """
    check_max_parallelism(max_parallelism)
    return (key_hashes % np.uint32(max_parallelism)).astype(np.int16)


def key_group_range(max_parallelism: int, parallelism: int, operator_index: int) -> KeyGroupRange:
    """Return the key groups of subtask `operator_index` (0-based) out of `parallelism`.

    Raises:
        KeyGroupRangeError: parallelism > max_parallelism, or an argument is out of range.
    """
    check_parallelism(max_parallelism, parallelism)
    if not 0 <= operator_index < parallelism:
        raise KeyGroupRangeError(f"there is no subtask {operator_index} at parallelism {parallelism}")
    start = (operator_index * max_parallelism + parallelism - 1) // parallelism
    end = ((operator_index + 1) * max_parallelism - 1) // parallelism
    return KeyGroupRange(start, end)


def operator_index_for_key_group(max_parallelism: int, parallelism: int, key_group: int) -> int:
    """Return the subtask that owns `key_group`; the inverse of `key_group_range`. Arguments are unchecked: hot path."""
    return key_group * parallelism // max_parallelism
