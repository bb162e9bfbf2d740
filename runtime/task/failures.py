"""Failures in words: what an error of user code or of the slot means for the job, for the JobMaster to judge. Pure."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

from runtime.core.ids import SlotId, TaskId
from runtime.state.errors import RedistributionError, StateMigrationError
from runtime.task.messages import FailureInfo


def describe_failure(
    error: BaseException, task: TaskId | None = None, task_name: str = "", slot: SlotId | None = None
) -> FailureInfo:
    """Describe an error for the JobMaster: its message in one line, and the traceback."""
    text = " ".join(str(error).split())
    name = type(error).__name__
    message = text if getattr(error, "is_self_explanatory", False) else f"{name}: {text}" if text else name
    where = f"task {task_name}: " if task_name and not getattr(error, "is_self_explanatory", False) else ""
    causes = list(_causes(error))
    return FailureInfo(
        where + message,
        "".join(traceback.format_exception(error)).rstrip(),
        task,
        task_name,
        slot,
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
