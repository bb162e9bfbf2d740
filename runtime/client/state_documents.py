"""Keys, values and timers of looked-up state as JSON that a browser can show, and keys of JSON as keys. Pure.

Values are JSON as previews show them, but for maps, whose keys may be anything: {"key", "value"} of each entry. A value
says whether a part of it was left out.
"""

from __future__ import annotations

import datetime
import decimal
import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from runtime.checkpoint.key_lookup import FoundTimer, FoundValue, KeyLookup
from runtime.client.preview_samples import instant_text, value_of
from runtime.common.time import Instant
from runtime.common.types import Row
from runtime.core.keys import encode_key
from runtime.core.secret_names import ALL_COLUMNS, HIDDEN, is_secret_column
from runtime.graph.key_types import key_type_info
from runtime.state.map_keys import user_key

MAX_VALUES: Final = 100
"""Maximum number of namespaces, and of timers."""
MAX_ITEMS: Final = 200
"""Maximum number of items of a list or a map."""
MAX_CHARS: Final = 4_000
"""Maximum length of a text; also of bytes in hexadecimal."""
MAX_PARTS: Final = 5_000
"""Maximum number of all parts of one value: lists in lists multiply."""
MAX_DEPTH: Final = 8
_MAX_SAFE: Final = (1 << 53) - 1
#: of 4,300 digits, beyond which the time that decimal digits take may be what someone wants to cause
_MAX_DECIMAL_BITS: Final = 14_280


class KeyFormError(ValueError):
    """A key of JSON cannot be read as a key of the type."""


def key_of(key_type: str, key: Any) -> Any:
    """Return the key that JSON stands for.

    Args:
        key_type: name of its type; empty or unknown: text is text, numbers are LONG or DOUBLE, an array is a tuple, an
            object a row with these fields.
        key: numbers may be texts.

    Raises:
        KeyFormError: it is none of that type.
    """
    declared = key_type_info(key_type)
    if declared is None:
        return _plain(key)
    try:
        return value_of(declared, key)
    except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise KeyFormError(f"a key of the type {key_type} cannot be read from {str(key)[:100]!r}: {error}") from error


def _plain(key: Any) -> Any:
    if isinstance(key, list):
        return tuple(map(_plain, key))
    return Row(**{name: _plain(part) for name, part in key.items()}) if isinstance(key, dict) else key


def key_document(key: Any) -> dict[str, Any]:
    """Return a key as JSON, and in the encoding that stands for exactly this key, in hexadecimal."""
    return {"key": Shown().of(key), "encoded_key": encode_key(key).hex()}


def lookup_document(found: KeyLookup, masked: Collection[str] = ()) -> dict[str, Any]:
    """Return what was found of a key.

    Args:
        found: in a snapshot; of a state whose name looks like a secret's the values are hidden, too.
        masked: names of columns that nobody may see, beside those that look like secrets; "*": all.
    """
    hides = MaskedNames(masked)
    return {
        **key_document(found.key),
        "key_group": found.key_group,
        "subtask": found.subtask,
        "values": [_value(value, found.state.name, hides) for value in found.values[:MAX_VALUES]],
        "num_values": len(found.values),
        "timers": [_timer(timer) for timer in found.timers[:MAX_VALUES]],
        "num_timers": found.num_timers,
    }


def _value(found: FoundValue, state: str, hides: MaskedNames) -> dict[str, Any]:
    shown, times = Shown(hides), found.touched_ms
    if isinstance(times, dict):
        times = list(times.values())
    return {
        "namespace": None if found.namespace is None else Shown().of(found.namespace),
        "value": HIDDEN if state in hides else shown.of(found.value),
        "touched": times[:MAX_ITEMS] if isinstance(times, list) else times,
        "is_decoded": found.is_decoded,
        "num_items": len(found.value) if isinstance(found.value, list | dict) else None,
        "is_cut": shown.is_cut,
    }


def _timer(timer: FoundTimer) -> dict[str, Any]:
    return {
        "service": timer.service,
        "is_event_time": timer.is_event_time,
        "timestamp": timer.timestamp,
        "namespace": None if timer.namespace is None else Shown().of(timer.namespace),
    }


def _digits(number: int) -> str:
    """Return an integer as text; in hexadecimal if it is so large that Python refuses its decimal digits."""
    return hex(number) if number.bit_length() > _MAX_DECIMAL_BITS else str(number)


class MaskedNames:
    """Names of what nobody may see: those that look like secrets, and those that a job's configuration has.

    Args:
        names: in any case; "*": all.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = {name.strip().lower() for name in names}

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return ALL_COLUMNS in self._names
        return ALL_COLUMNS in self._names or name.strip().lower() in self._names or is_secret_column(name)


class Shown:
    """Shows one value; says whether a part of it was left out.

    Args:
        hides: names of fields, and texts that are keys of maps, whose values are hidden.
    """

    def __init__(self, hides: MaskedNames | None = None) -> None:
        self._hides = MaskedNames() if hides is None else hides
        self.is_cut = False
        self._parts = 0

    def of(self, value: Any, depth: int = 0) -> Any:
        """Return a value as JSON."""
        self._parts += 1
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return value if abs(value) <= _MAX_SAFE else self._text(_digits(value))
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if isinstance(value, Instant):
            return instant_text(value)
        if isinstance(value, datetime.date | datetime.time):
            return value.isoformat()
        if isinstance(value, decimal.Decimal | datetime.timedelta):
            return self._text(str(value))
        if isinstance(value, bytes):
            return self._text(value[: MAX_CHARS // 2 + 1].hex(), len(value) * 2)
        if isinstance(value, str):
            return self._text(value)
        if depth >= MAX_DEPTH:
            self.is_cut = True
            return "…"
        return self._nested(value, depth + 1)

    def _nested(self, value: Any, depth: int) -> Any:
        if isinstance(value, Row) and value._fields is not None:
            return {name: self._named(name, part, depth) for name, part in zip(value._fields, value, strict=True)}
        if isinstance(value, Mapping) and depth > 1 and all(isinstance(name, str) for name in value):
            return {name: self._named(name, part, depth) for name, part in self._some(list(value.items()))}
        if isinstance(value, Mapping):
            pairs = self._some(list(value.items()))
            return [
                {"key": self.of(user_key(key), depth), "value": self._named(user_key(key), part, depth)}
                for key, part in pairs
            ]
        if isinstance(value, Row | Sequence):
            return [self.of(part, depth) for part in self._some(list(value))]
        return self._text(str(value))

    def _named(self, name: Any, part: Any, depth: int) -> Any:
        return HIDDEN if name in self._hides else self.of(part, depth)

    def _some(self, items: list[Any]) -> list[Any]:
        left = max(0, min(MAX_ITEMS, MAX_PARTS - self._parts))
        self.is_cut |= len(items) > left
        return list(itertools.islice(items, left))

    def _text(self, text: str, length: int | None = None) -> str:
        length = len(text) if length is None else length
        if length <= MAX_CHARS:
            return text
        self.is_cut = True
        return f"{text[:MAX_CHARS]}… and {length - MAX_CHARS:,} more characters"
