"""Sizes of windows in ms, from what a program gives them as: PyFlink's Time, Flink's Duration."""

from __future__ import annotations

from runtime.common.time import Duration, Time


def to_milliseconds(amount: Time | Duration | None) -> int:
    """Whole ms; None is 0.

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
