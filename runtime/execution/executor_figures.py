"""SparkExecutor: an executor of a Spark session, as its status store has it. Plain, for processes without Spark."""

from __future__ import annotations

from typing import TypedDict


class SparkExecutor(TypedDict):
    """As Spark's own page has it. Sizes are bytes, times ms."""

    id: str
    """"driver": of a local session, in which there is no other one."""
    address: str
    """host:port"""
    is_active: bool
    cores: int
    active_tasks: int
    completed_tasks: int
    failed_tasks: int
    memory_used: int
    """Of Spark's storage; slots are processes of their own."""
    memory_max: int
    disk_used: int
    duration: int
    """Of all its tasks."""
    gc_time: int
