"""Names of operators in metrics: a task reports `<operator id>.<metric>`, people read `<operator>.<metric>`. Pure.

Operators of a chain may share a name, so ids keep their metrics apart until they are shown; then the second of a name
is `<operator>_2`. Source: Flink, TaskMetricGroup.getOrAddOperator (ids inside, names outside).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Mapping, Sequence
from typing import TypeVar

from runtime.core.ids import VertexId
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.status import JobStatusSnapshot

Value = TypeVar("Value")


def distinct_names(names: Sequence[str]) -> list[str]:
    """Return the names, with `_2`, `_3` … appended to those that occurred before.

    Args:
        names: of the operators of a chain, in its order; the first of a name keeps it.
    """
    found: list[str] = []
    for name in names:
        number, free = 1, name
        while free in found or (number > 1 and free in names):
            number += 1
            free = f"{name}_{number}"
        found.append(free)
    return found


def split_metric(name: str, operators: Container[str]) -> tuple[str, str]:
    """Split a task's metric into the id of its operator and the metric's own name.

    Args:
        name: as the task reports it.
        operators: ids of its operators.

    Returns:
        ("", name) for a metric of the task itself.
    """
    operator, _, rest = name.partition(".")
    return (operator, rest) if operator in operators else ("", name)


def by_name(metrics: Mapping[str, Value], names: Mapping[str, str]) -> dict[str, Value]:
    """Return a task's metrics as `<operator>.<metric>`.

    Args:
        metrics: as the task reports them.
        names: operator id → distinct name.
    """
    named: dict[str, Value] = {}
    for reported, value in metrics.items():
        operator, metric = split_metric(reported, names)
        named[f"{names[operator]}.{metric}" if operator else metric] = value
    return named


def with_names(status: JobStatusSnapshot, graph: JobGraph) -> JobStatusSnapshot:
    """Return a job's status with its tasks' metrics under the names of its operators."""
    names_of: dict[VertexId, dict[str, str]] = {
        vertex.vertex_id: dict(
            zip(
                [operator.operator_id for operator in vertex.operators],
                distinct_names([operator.name for operator in vertex.operators]),
                strict=True,
            )
        )
        for vertex in graph.vertices
    }
    tasks = tuple(
        dataclasses.replace(task, metrics=by_name(task.metrics, names_of[task.task.vertex_id])) for task in status.tasks
    )
    return dataclasses.replace(status, tasks=tasks)
