"""Duration, Time and Instant: amounts and points of time as PyFlink names them, and their texts in options.

Immutable values. Source: PyFlink, common/time.py; Flink, TimeUtils (the text forms).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Duration", "Instant", "Time"]

_NANOS_PER_MILLI = 1_000_000
_UNITS = {
    **dict.fromkeys(("d", "day", "days"), 86_400_000_000_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000_000_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000_000_000),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000_000_000),
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), _NANOS_PER_MILLI),
    **dict.fromkeys(("us", "µs", "micro", "micros", "microsecond", "microseconds"), 1_000),
    **dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), 1),
}
_NUMBER_AND_UNIT = re.compile(r"(-?\d+)\s*([a-zµ]*)")
_ISO = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,9}))?S)?)?", re.IGNORECASE)
DURATION_FORMS = 'a number of ms, a number with a unit ("200 ms", "1 s", "10 min", "2 h", "1 d"), or ISO ("PT1H30M")'


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """An amount of time, in whole nanoseconds."""

    nanos: int

    @classmethod
    def of_days(cls, days: int) -> Duration:
        return cls(days * 86_400_000_000_000)

    @classmethod
    def of_hours(cls, hours: int) -> Duration:
        return cls(hours * 3_600_000_000_000)

    @classmethod
    def of_minutes(cls, minutes: int) -> Duration:
        return cls(minutes * 60_000_000_000)

    @classmethod
    def of_seconds(cls, seconds: int, nano_adjustment: int = 0) -> Duration:
        return cls(seconds * 1_000_000_000 + nano_adjustment)

    @classmethod
    def of_millis(cls, millis: int) -> Duration:
        return cls(millis * _NANOS_PER_MILLI)

    @classmethod
    def of_nanos(cls, nanos: int) -> Duration:
        return cls(nanos)

    @classmethod
    def parse(cls, text: str) -> Duration:
        """Read a duration as Flink's options write it; see DURATION_FORMS.

        Raises:
            ValueError: the text has none of the forms.
        """
        text = text.strip()
        plain = _NUMBER_AND_UNIT.fullmatch(text.lower())
        if plain and plain[2] in _UNITS:
            return cls(int(plain[1]) * _UNITS[plain[2]])
        iso = _ISO.fullmatch(text)
        if iso and any(iso.groups()):
            days, hours, minutes, seconds, fraction = (group or "0" for group in iso.groups())
            whole = int(days) * 86_400 + int(hours) * 3_600 + int(minutes) * 60 + int(seconds)
            return cls(whole * 1_000_000_000 + int(fraction.ljust(9, "0")))
        raise ValueError(f"not a duration: {text!r}; accepted: {DURATION_FORMS}")

    def to_millis(self) -> int:
        """Return whole milliseconds, rounded down."""
        return self.nanos // _NANOS_PER_MILLI

    def to_nanos(self) -> int:
        return self.nanos

    def __str__(self) -> str:
        """Return the shortest form that `parse` reads back."""
        for size, unit in (
            (86_400_000_000_000, "d"),
            (3_600_000_000_000, "h"),
            (60_000_000_000, "min"),
            (1_000_000_000, "s"),
            (_NANOS_PER_MILLI, "ms"),
        ):
            if self.nanos and self.nanos % size == 0:
                return f"{self.nanos // size} {unit}"
        return f"{self.nanos} ns" if self.nanos else "0 ms"


class Time:
    """A window's size or slide, in whole milliseconds.

    Args:
        milliseconds: the amount, ms.
    """

    __slots__ = ("_milliseconds",)

    def __init__(self, milliseconds: int) -> None:
        self._milliseconds = milliseconds

    def to_milliseconds(self) -> int:
        return self._milliseconds

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> Time:
        return Time(seconds * 1_000)

    @staticmethod
    def minutes(minutes: int) -> Time:
        return Time(minutes * 60_000)

    @staticmethod
    def hours(hours: int) -> Time:
        return Time(hours * 3_600_000)

    @staticmethod
    def days(days: int) -> Time:
        return Time(days * 86_400_000)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Time) and other._milliseconds == self._milliseconds

    def __hash__(self) -> int:
        return hash(self._milliseconds)

    def __repr__(self) -> str:
        return f"Time.milliseconds({self._milliseconds})"


@dataclass(frozen=True, slots=True, order=True)
class Instant:
    """A point on the time line, UTC."""

    seconds: int
    """Since the epoch; negative before it."""
    nanos: int = 0
    """In [0, 1e9), counted forward from `seconds`."""

    def to_epoch_milli(self) -> int:
        return self.seconds * 1_000 + self.nanos // _NANOS_PER_MILLI

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        seconds, millis = divmod(epoch_milli, 1_000)
        return Instant(seconds, millis * _NANOS_PER_MILLI)

    def __repr__(self) -> str:
        return f"Instant<{self.seconds}, {self.nanos}>"
