"""Failures in words: what an error of user code or of the slot means for the job, for the JobMaster to judge. Pure."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from typing import Protocol

from runtime.core.ids import SlotId, TaskId
from runtime.core.well_formed import well_formed
from runtime.graph.job_graph import ChainedOperator
from runtime.state.errors import RedistributionError, StateMigrationError
from runtime.task.messages import FailureInfo


class FailedTask(Protocol):
    """Facts about a failed task."""

    @property
    def task_id(self) -> TaskId: ...

    @property
    def name(self) -> str: ...

    @property
    def chained_operators(self) -> Iterable[tuple[object, ChainedOperator]]:
        """Return its operators, and what its graph says of each."""


def describe_task_failure(error: BaseException, task: FailedTask, slot: SlotId) -> FailureInfo:
    """Describe an error of a task's operators for the JobMaster."""
    operator = failed_operator(error, task.chained_operators)
    return describe_failure(error, task.task_id, task.name, slot, operator)


def failed_operator(
    error: BaseException, operators: Iterable[tuple[object, ChainedOperator]]
) -> ChainedOperator | None:
    """Return the operator in whose innermost call an error was raised; None if it was outside of all of them.

    Args:
        error: with its traceback.
        operators: of the task, and what its graph says of each.
    """
    known = {id(operator): chained for operator, chained in operators}
    found = None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        found = known.get(id(frame.f_locals.get("self")), found)
    return found


def describe_failure(
    error: BaseException,
    task: TaskId | None = None,
    task_name: str = "",
    slot: SlotId | None = None,
    operator: ChainedOperator | None = None,
) -> FailureInfo:
    """Describe an error for the JobMaster: its message in one line, and the traceback; both are well-formed, and end
    with the place where the operator is defined, if that is known.
    """
    text = " ".join(str(error).split())
    name = type(error).__name__
    message = text if getattr(error, "is_self_explanatory", False) else f"{name}: {text}" if text else name
    where = f"task {task_name}: " if task_name and not getattr(error, "is_self_explanatory", False) else ""
    causes = list(_causes(error))
    trace = "".join(traceback.format_exception(error)).rstrip()
    if operator is not None and operator.defined_at:
        defined = f"operator {operator.name!r} is defined at {operator.defined_at}"
        message, trace = f"{message} ({defined})", f"{trace}\n{defined}"
    return FailureInfo(
        well_formed(where + message),
        well_formed(trace),
        task,
        task_name,
        slot,
        operator_id=None if operator is None else operator.operator_id,
        defined_at="" if operator is None else operator.defined_at,
        is_damaged_snapshot=any(getattr(cause, "is_damaged_snapshot", False) for cause in causes),
        # state that does not fit the program will not fit it the next time either
        is_fatal=any(
            isinstance(cause, RedistributionError | StateMigrationError) or getattr(cause, "is_fatal", False)
            for cause in causes
        ),
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
