"""PeekedValues: rows as JSON for a peek: shortened, and without what nobody may see. Pure.

Of classes of users only the attributes are shown, and none of their code is called: a row must not notice that somebody
looks at it. What is masked, and what of a secret's value a text has, is gone before the row leaves the slot.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import enum
import itertools
import json
import math
import types
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np

from runtime.common.time import Instant
from runtime.common.typeinfo import RowTypeInfo, TypeInformation
from runtime.common.types import Row
from runtime.core.secret_names import is_secret_column

HIDDEN: Final = "******"
MAX_CHARS: Final = 500
"""Maximum length of a text; also of bytes in hexadecimal."""
MAX_ITEMS: Final = 50
"""Maximum number of items of a list or a map, and of columns."""
MAX_PARTS: Final = 300
"""Maximum number of all parts of one row."""
MAX_DEPTH: Final = 6
MAX_ROW_CHARS: Final = 32 << 10
"""Maximum length of a row as JSON; nothing of a longer one is shown."""
#: beginning of a text in which secrets are looked for: one that begins where it is shown must end here
_EXAMINED_CHARS: Final = 8_000
_MAX_SAFE: Final = (1 << 53) - 1
#: of 4,300 digits, more than which Python refuses to write
_MAX_DECIMAL_BITS: Final = 14_280
_EPOCH: Final = datetime.datetime(1970, 1, 1)
_PLAIN: Final = (datetime.timedelta, decimal.Decimal, uuid.UUID)
_CONTAINERS: Final = (Row, tuple, dict, list, set, frozenset, np.ndarray)
_DATES: Final = (datetime.date, datetime.time)
ALL: Final = "*"


class PeekedValues:
    """Shows rows of one job.

    Args:
        masked: names of the columns that nobody may see, in any case, beside those that look like secrets; "*": all.
        redact: takes the values of the job's secrets out of a text.
    """

    def __init__(self, masked: Iterable[str], redact: Callable[[str], str]) -> None:
        names = {name.strip().lower() for name in masked}
        self._hides_all = ALL in names
        self._masked = names
        self._redact = redact
        self._is_cut = False
        self._parts = 0

    def shown(self, value: Any, type_info: TypeInformation | None) -> tuple[str, bool]:
        """Return a row as JSON, and whether a part of it was left out.

        Args:
            value: the row.
            type_info: its type, which may name the fields of a row that does not.
        """
        self._is_cut, self._parts = False, 0
        text = json.dumps(self._of(value, type_info, 0), separators=(",", ":"))
        return (text, self._is_cut) if len(text) <= MAX_ROW_CHARS else ('"…"', True)

    def _of(self, value: Any, type_info: TypeInformation | None, depth: int) -> Any:
        self._parts += 1
        if isinstance(value, _CONTAINERS):
            return self._nested(value, type_info, depth)
        if self._hides_all:
            return HIDDEN
        if isinstance(value, enum.Enum):
            return value.name
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return value if abs(value) <= _MAX_SAFE else self._text(_digits(value))
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, (bytes, bytearray)):
            return self._bytes(bytes(value[:_EXAMINED_CHARS]), len(value))
        if isinstance(value, Instant):
            return _instant_text(value)
        if isinstance(value, _DATES):
            return value.isoformat()
        if isinstance(value, _PLAIN):
            return self._text(str(value))
        return self._nested(value, None, depth)

    def _nested(self, value: Any, type_info: TypeInformation | None, depth: int) -> Any:
        if depth >= MAX_DEPTH:
            self._is_cut = True
            return "…"
        if isinstance(value, (Row, tuple)):
            return self._fields(value, type_info, depth)
        if isinstance(value, dict):
            of_value = getattr(type_info, "value_type", None)
            items = self._some(value.items(), len(value))
            named = ((self._key(key), part) for key, part in items)
            return {name: self._column(name, part, of_value, depth) for name, part in named}
        if isinstance(value, (list, set, frozenset, np.ndarray)):
            of_part = getattr(type_info, "element_type", None)
            parts = value.flat if isinstance(value, np.ndarray) else value
            return [self._of(part, of_part, depth + 1) for part in self._some(parts, len(parts))]
        attributes = _attributes_of(value)
        some = self._some(attributes, len(attributes))
        shown = {name: self._column(name, part, None, depth) for name, part in some}
        return {"$class": type(value).__qualname__[:MAX_CHARS], **shown}

    def _fields(self, value: Row | tuple[Any, ...], type_info: TypeInformation | None, depth: int) -> Any:
        of_parts = itertools.chain(getattr(type_info, "field_types", ()), itertools.repeat(None))
        fields = self._some(zip(value, of_parts, strict=False), len(value))
        names = _field_names(value, type_info)
        if names is None:
            return [self._of(part, of_part, depth + 1) for part, of_part in fields]
        named = zip(names, fields, strict=False)
        return {name: self._column(name, part, of_part, depth) for name, (part, of_part) in named}

    def _column(self, name: str, value: Any, type_info: TypeInformation | None, depth: int) -> Any:
        if name.lower() in self._masked or is_secret_column(name):
            return HIDDEN
        return self._of(value, type_info, depth + 1)

    def _key(self, key: Any) -> str:
        if isinstance(key, str):
            return self._text(key)
        shown = self._of(key, None, MAX_DEPTH - 1)
        return shown if isinstance(shown, str) else json.dumps(shown)

    def _some(self, items: Iterable[Any], count: int) -> Iterable[Any]:
        left = max(0, min(MAX_ITEMS, MAX_PARTS - self._parts))
        self._is_cut |= count > left
        return itertools.islice(items, left)

    def _text(self, text: str) -> str:
        shown = self._redact(text[:_EXAMINED_CHARS])
        if len(shown) <= MAX_CHARS and len(text) <= _EXAMINED_CHARS:
            return shown
        self._is_cut = True
        return f"{shown[:MAX_CHARS]}…"

    def _bytes(self, start: bytes, length: int) -> str:
        text = start.decode("utf-8", "replace")
        if self._redact(text) != text:
            return HIDDEN
        shown = start[: MAX_CHARS // 2].hex()
        if length <= MAX_CHARS // 2:
            return shown
        self._is_cut = True
        return f"{shown}…"


def _field_names(value: Row | tuple[Any, ...], type_info: TypeInformation | None) -> Sequence[str] | None:
    names: Sequence[str] | None = getattr(value, "_fields", None)
    if names is None and isinstance(type_info, RowTypeInfo):
        names = type_info.field_names
    return names


def _attributes_of(value: Any) -> list[tuple[str, Any]]:
    """Return the attributes that an object has itself; properties are the user's code."""
    own = getattr(value, "__dict__", None)
    found = list(own.items()) if isinstance(own, dict) else []
    for of in type(value).__mro__:
        slots = of.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            member = of.__dict__.get(name)
            if isinstance(member, types.MemberDescriptorType):
                with contextlib.suppress(AttributeError):
                    found.append((name, member.__get__(value)))
    return found


def _digits(number: int) -> str:
    return hex(number) if number.bit_length() > _MAX_DECIMAL_BITS else str(number)


def _instant_text(instant: Instant) -> str:
    moment = _EPOCH + datetime.timedelta(seconds=instant.seconds)
    digits = f"{instant.nanos:09d}".rstrip("0").ljust(3, "0")
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{digits}Z"
