"""SlotSharingGroup and MemorySize at PyFlink's module path.

Operators of different groups never share a slot. The resources of a group are kept and shown but not enforced: how
large a slot is, the Spark cluster's configuration says. Source: PyFlink, slot_sharing_group.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import total_ordering
from typing import TYPE_CHECKING, Any

from runtime.common.exclusions import refuse_attribute

__all__ = ["MemorySize", "SlotSharingGroup"]


@total_ordering
class MemorySize:
    """An amount of memory.

    Args:
        bytes_size: bytes, not negative.

    Raises:
        ValueError: it is negative.
    """

    __slots__ = ("_bytes",)

    def __init__(self, bytes_size: int) -> None:
        if bytes_size < 0:
            raise ValueError(f"a memory size must not be negative: {bytes_size}")
        self._bytes = bytes_size

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        return MemorySize(mebi_bytes << 20)

    def get_bytes(self) -> int:
        return self._bytes

    def get_kibi_bytes(self) -> int:
        """Return KiB, rounded down, as all larger units."""
        return self._bytes >> 10

    def get_mebi_bytes(self) -> int:
        return self._bytes >> 20

    def get_gibi_bytes(self) -> int:
        return self._bytes >> 30

    def get_tebi_bytes(self) -> int:
        return self._bytes >> 40

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemorySize) and other._bytes == self._bytes

    def __lt__(self, other: MemorySize) -> bool:
        return self._bytes < other._bytes

    def __hash__(self) -> int:
        return hash(self._bytes)

    def __str__(self) -> str:
        for shift, unit in ((40, "tb"), (30, "gb"), (20, "mb"), (10, "kb")):
            if self._bytes and self._bytes % (1 << shift) == 0:
                return f"{self._bytes >> shift} {unit}"
        return f"{self._bytes} bytes"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            refuse_attribute(self, name)


@dataclass(frozen=True)
class SlotSharingGroup:
    """A group and the resources of its slots. Made by `SlotSharingGroup.builder(name)`."""

    name: str
    cpu_cores: float | None = None
    task_heap_memory: MemorySize | None = None
    task_off_heap_memory: MemorySize | None = None
    managed_memory: MemorySize | None = None
    external_resources: Mapping[str, float] = field(default_factory=dict, hash=False)

    def get_name(self) -> str:
        return self.name

    def get_managed_memory(self) -> MemorySize | None:
        return self.managed_memory

    def get_task_heap_memory(self) -> MemorySize | None:
        return self.task_heap_memory

    def get_task_off_heap_memory(self) -> MemorySize | None:
        return self.task_off_heap_memory

    def get_cpu_cores(self) -> float | None:
        return self.cpu_cores

    def get_external_resources(self) -> dict[str, float]:
        return dict(self.external_resources)

    @staticmethod
    def builder(name: str) -> SlotSharingGroup.Builder:
        """Start a group of that name."""
        return SlotSharingGroup.Builder(name)

    class Builder:
        """Makes a SlotSharingGroup."""

        def __init__(self, name: str) -> None:
            self._group = SlotSharingGroup(name)

        def set_cpu_cores(self, cpu_cores: float) -> SlotSharingGroup.Builder:
            """Set the CPU cores of a slot.

            Raises:
                ValueError: it is not positive.
            """
            if cpu_cores <= 0:
                raise ValueError(f"the number of CPU cores must be positive, not {cpu_cores}")
            self._group = replace(self._group, cpu_cores=cpu_cores)
            return self

        def set_task_heap_memory(self, task_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Set the heap memory of a slot.

            Raises:
                ValueError: it is zero.
            """
            if task_heap_memory.get_bytes() == 0:
                raise ValueError("the task heap memory of a slot-sharing group must be positive")
            self._group = replace(self._group, task_heap_memory=task_heap_memory)
            return self

        def set_task_heap_memory_mb(self, task_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            return self.set_task_heap_memory(MemorySize.of_mebi_bytes(task_heap_memory_mb))

        def set_task_off_heap_memory(self, task_off_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            self._group = replace(self._group, task_off_heap_memory=task_off_heap_memory)
            return self

        def set_task_off_heap_memory_mb(self, task_off_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            return self.set_task_off_heap_memory(MemorySize.of_mebi_bytes(task_off_heap_memory_mb))

        def set_managed_memory(self, managed_memory: MemorySize) -> SlotSharingGroup.Builder:
            self._group = replace(self._group, managed_memory=managed_memory)
            return self

        def set_managed_memory_mb(self, managed_memory_mb: int) -> SlotSharingGroup.Builder:
            return self.set_managed_memory(MemorySize.of_mebi_bytes(managed_memory_mb))

        def set_external_resource(self, name: str, value: float) -> SlotSharingGroup.Builder:
            resources = {**self._group.external_resources, name: value}
            self._group = replace(self._group, external_resources=resources)
            return self

        def build(self) -> SlotSharingGroup:
            """Return the group.

            Raises:
                ValueError: some resources are given but not both CPU cores and heap memory.
            """
            group = self._group
            others = (group.task_off_heap_memory, group.managed_memory, *group.external_resources.values())
            if (group.cpu_cores is None) != (group.task_heap_memory is None) or (
                group.cpu_cores is None and any(resource is not None for resource in others)
            ):
                raise ValueError("a slot-sharing group with resources needs both CPU cores and task heap memory")
            if group.cpu_cores is None:
                return group
            none = MemorySize(0)
            return replace(
                group,
                task_off_heap_memory=group.task_off_heap_memory or none,
                managed_memory=group.managed_memory or none,
            )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            refuse_attribute(self, name)
