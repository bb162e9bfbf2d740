"""Errors in operators, worded so that the user finds the place: operator, record, and the user's own line.

`UserFunctionError` wraps whatever a user function raised. Its message is one line, and it can be pickled: the original
error, which often cannot, stays behind as `__cause__` and as text. Used by the task's thread.
"""

from __future__ import annotations

import linecache
import traceback
from types import TracebackType
from typing import Any

from runtime.core.places import is_engine, users_place
from runtime.operators.operator import OperatorContext

#: longer records are cut: the message must stay one readable line in a terminal and in a dashboard
RECORD_CHARS = 200
NO_RECORD: Any = object()
"""Placeholder for the record where a function failed outside of any: in open(), in a timer."""


class OperatorError(Exception):
    """Base of the errors that operators raise themselves."""


class StateAccessError(OperatorError):
    """Keyed state or timers were used where there is no key."""


class MissingTimestampError(OperatorError):
    """A record without an event time reached an operator that needs one."""


class UserFunctionError(OperatorError):
    """A user's function failed.

    Attributes:
        operator_name: as in the plan.
        subtask_index: 0-based.
        parallelism: of the operator.
        record: repr of the record, at most 200 characters; None if there was none.
        location: "file:line" of the user's own code; "" if it is not known.
        source_line: that line's text, stripped; "" if the file is not at hand.
        error: the original error on one line, "KeyError: 'dep'".
        details: the original traceback.
        during: what was being done if not processing a record, for example "open()".
    """

    #: reports show the message alone, which names the operator
    is_self_explanatory = True

    def __init__(
        self,
        operator_name: str,
        subtask_index: int,
        parallelism: int,
        record: str | None,
        location: str,
        source_line: str,
        error: str,
        details: str = "",
        during: str = "",
    ) -> None:
        self.operator_name = operator_name
        self.subtask_index = subtask_index
        self.parallelism = parallelism
        self.record = record
        self.location = location
        self.source_line = source_line
        self.error = error
        self.details = details
        self.during = during
        message = f"operator {operator_name!r} (subtask {subtask_index + 1}/{parallelism}) failed"
        if during:
            message += f" in {during}"
        if record is not None:
            message += f" on record {record}"
        message += f": {error}"
        if location:
            message += f" at {location}"
        if source_line:
            message += f": {source_line}"
        super().__init__(message)

    def __reduce__(self) -> tuple[Any, ...]:
        return (
            type(self),
            (
                self.operator_name,
                self.subtask_index,
                self.parallelism,
                self.record,
                self.location,
                self.source_line,
                self.error,
                self.details,
                self.during,
            ),
        )


def user_function_error(
    context: OperatorContext,
    error: BaseException,
    record: Any = NO_RECORD,
    function: Any = None,
    during: str = "",
) -> UserFunctionError:
    """Describe a failure of user code; raise the result `from error`.

    Args:
        context: of the operator that called the function.
        error: what was raised.
        record: the record that was being processed, if there was one.
        function: the user's function: its definition is named where the traceback has no line of the user's.
        during: what was being done, if it was not processing a record.
    """
    if isinstance(error, UserFunctionError):
        return error
    location, source_line = _users_line(error.__traceback__) or _definition(function)
    return UserFunctionError(
        context.operator_name,
        context.subtask_index,
        context.parallelism,
        None if record is NO_RECORD else describe_record(record),
        location,
        source_line,
        _one_line("".join(traceback.format_exception_only(error))),
        "".join(traceback.format_exception(error)),
        during,
    )


def failing_index(iterator: Any, num_rows: int) -> int:
    """Return the index of the element that a list iterator over `num_rows` elements returned last."""
    return max(num_rows - int(iterator.__length_hint__()) - 1, 0)


def describe_record(record: Any) -> str:
    """Return the record's repr on one line, cut at 200 characters."""
    try:
        text = _one_line(repr(record))
    except Exception as error:  # a repr is user code too
        text = f"<{type(record).__name__}, whose repr raised {type(error).__name__}>"
    return text if len(text) <= RECORD_CHARS else text[:RECORD_CHARS] + "…"


def _one_line(text: str) -> str:
    return " ".join(line.strip() for line in text.strip().splitlines())


def _users_line(trace: TracebackType | None) -> tuple[str, str] | None:
    """Return the innermost line outside of the runtime, and outside of libraries if there is one."""
    outermost_first = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(trace)]
    place = users_place(reversed(outermost_first))
    return None if place is None else (f"{place[0]}:{place[1]}", linecache.getline(*place).strip())


def _definition(function: Any) -> tuple[str, str]:
    """Return the place where a function, or the class of a function object, is defined."""
    code = getattr(function, "__code__", None)
    if code is None or is_engine(code.co_filename):
        return "", ""
    return f"{code.co_filename}:{code.co_firstlineno}", linecache.getline(code.co_filename, code.co_firstlineno).strip()
