"""Converts sizes of windows to ms, from PyFlink's Time or Flink's Duration."""

from __future__ import annotations

from runtime.common.time import Duration, Time


def to_milliseconds(amount: Time | Duration | None) -> int:
    """Return whole ms; None is 0.

    Raises:
        TypeError: it is something else.
    """
    if amount is None:
        return 0
    if isinstance(amount, Duration):
        return amount.to_millis()
    if isinstance(amount, Time):
        return amount.to_milliseconds()
    raise TypeError(f"an amount of time is given as Time or Duration, not as {amount!r}")
