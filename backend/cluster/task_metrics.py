"""Metrics of subtasks beyond the live document: all metrics of task, operators and user, and accumulators.

The jobmanager writes them to a Redis hash per job, one field per subtask, so that the live document, which is sent to
every open page, stays small; REST reads the fields it needs. Pure. Names are the slots' own, `<operator id>.<metric>`;
`flink_metrics` turns them into Flink's ids, in which the operator's name stands.
Source: Flink, MetricQueryService and MetricStore.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from backend.cluster.storable import NO_JSON_NUMBERS, storable
from runtime.common.accumulators import AccumulatorReport, accumulators_of, is_accumulator
from runtime.core.ids import operator_id_of
from runtime.jobmaster.metric_names import distinct_names, split_metric
from runtime.jobmaster.status import TaskSnapshot
from runtime.task.messages import TaskState

Value = bool | int | float | str
Metrics = dict[str, Value]
Document = dict[str, Any]

ACCUMULATORS = "accumulators"
"""Field of the hash that holds the accumulators of all subtasks, and their key in a job's saved document."""
JOB_METRICS = "job"
"""Field for the metrics that Flink assigns to the job: latencies, whose names include source, operator and subtask."""
_LATENCY = "latency."
#: reported as 0 once a task has ended
_RATES = ("PerSecond", "Rate")
_NOT_IN_IDS = re.compile(r"[ .:,]")
_NOT_IN_PATHS = re.compile(r"[ :,]")


def subtask_field(vertex_id: str, index: int) -> str:
    """Return the hash field of a subtask."""
    return f"{vertex_id}.{index}"


def metric_fields(tasks: Iterable[TaskSnapshot]) -> dict[str, Document]:
    """Return the hash of a job: metrics of each subtask, latencies, accumulators."""
    tasks = list(tasks)
    fields: dict[str, Document] = {}
    latencies: Metrics = {}
    for task in tasks:
        own = fields[subtask_field(task.task.vertex_id, task.task.subtask_index)] = {}
        for name, value in _reported(task).items():
            (latencies if name.startswith(_LATENCY) else own)[name] = value
    return fields | {JOB_METRICS: latencies, ACCUMULATORS: accumulators_document(tasks)}


def _reported(task: TaskSnapshot) -> Metrics:
    has_ended = task.state is not TaskState.RUNNING
    return {
        name: 0.0 if has_ended and name.endswith(_RATES) else storable(value)
        for name, value in task.metrics.items()
        if value is not None and not is_accumulator(name)
    }


def metric_scopes(operators: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return operator id → the scope of its metrics in Flink's ids: its name, followed by a number unless it is the
    first of that name in the chain.

    Args:
        operators: of a vertex, as in its live document: name and uid.
    """
    scopes = distinct_names([metric_id(operator["name"]) for operator in operators])
    return {operator_id_of(operator["uid"]): scope for operator, scope in zip(operators, scopes, strict=True)}


def flink_metrics(reported: Mapping[str, Value], scopes: Mapping[str, str]) -> Metrics:
    """Return a subtask's metrics by Flink's ids: `<metric>` of the task, `<operator>.<group>.<metric>` of operators.

    Args:
        reported: metrics by the slot's names.
        scopes: of the chain's operators, see `metric_scopes`.
    """
    values: Metrics = {}
    for name, value in reported.items():
        operator, metric = split_metric(name, scopes)
        scope = f"{scopes[operator]}." if operator else ""
        values[scope + _NOT_IN_PATHS.sub("_", metric)] = value
    return values


def metric_id(name: str) -> str:
    """Return a name with the characters replaced that Flink's ids cannot contain."""
    return _NOT_IN_IDS.sub("_", name)


def accumulators_document(tasks: Iterable[TaskSnapshot]) -> Document:
    """Return vertex id → subtask index (as text) → [[name, kind, parts]], without subtasks that have none."""
    document: Document = {}
    for task in tasks:
        reports = accumulators_of(task.metrics)
        if reports:
            of_vertex = document.setdefault(task.task.vertex_id, {})
            of_vertex[str(task.task.subtask_index)] = [[r.name, r.kind, storable(r.parts)] for r in reports]
    return document


def accumulator_reports(document: Mapping[str, Any], vertex_id: str) -> dict[int, list[AccumulatorReport]]:
    """Return subtask index → its accumulators, from an `accumulators_document`."""
    return {
        int(index): [AccumulatorReport(name, kind, _numbers(parts)) for name, kind, parts in reports]
        for index, reports in document.get(vertex_id, {}).items()
    }


def _numbers(parts: Mapping[str, Any]) -> dict[str, Any]:
    return {part: NO_JSON_NUMBERS.get(value, value) for part, value in parts.items()}
