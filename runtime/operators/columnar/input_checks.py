"""Checks of every batch by columnar operators with state. Used by the task's thread."""

from __future__ import annotations

from runtime.core.batch import NO_TIMESTAMP, RecordBatch
from runtime.operators.columnar.frames import row_kinds
from runtime.operators.columnar.panes import Times
from runtime.operators.errors import MissingTimestampError, OperatorError
from runtime.operators.operator import OperatorContext


class ChangelogInputError(OperatorError):
    """Updates or deletes reached an operator that accepts inserts only."""


def check_inserts(context: OperatorContext, batch: RecordBatch) -> None:
    """Refuse rows of kinds other than INSERT.

    Raises:
        ChangelogInputError: there is one.
    """
    if row_kinds(batch) is not None:
        raise ChangelogInputError(
            f"operator {context.operator_name!r} accepts inserts only, but its input has updates or deletes"
        )


def event_times(context: OperatorContext, batch: RecordBatch) -> Times:
    """Return the event times of a batch that is not empty.

    Raises:
        MissingTimestampError: a row has none.
    """
    times = batch.timestamps_array()
    if times is None or times.min() == NO_TIMESTAMP:
        raise MissingTimestampError(
            f"operator {context.operator_name!r} works by event time, but a record has none: "
            "call assign_timestamps_and_watermarks() before key_by_columns()"
        )
    return times
