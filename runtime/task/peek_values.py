"""PeekedValues: rows as JSON for a peek: shortened, and without what nobody may see. Pure.

Of classes of users only the attributes are shown, and none of their code is called: a row must not notice that somebody
looks at it. So types are told by `type`, and values are read with the methods of Python's own classes. What is masked,
and what of a secret's value a text has, is gone before the row leaves the slot.
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
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from runtime.common import options
from runtime.common.configuration import Configuration
from runtime.common.secrets import SecretRef
from runtime.common.time import Instant
from runtime.common.typeinfo import MapTypeInfo, RowTypeInfo, TypeInformation
from runtime.common.types import Row
from runtime.core.secret_names import ALL_COLUMNS, HIDDEN, has_secret_word, is_secret_column

MAX_CHARS: Final = 500
"""Maximum length of a text; also of bytes in hexadecimal."""
MAX_ITEMS: Final = 50
"""Maximum number of items of a list or a map, and of columns."""
MAX_PARTS: Final = 300
"""Maximum number of all parts of one row."""
MAX_DEPTH: Final = 6
MAX_ROW_CHARS: Final = 32 << 10
"""Maximum length of a row as JSON; nothing of a longer one is shown."""
#: of its texts and names as JSON; what is left of MAX_ROW_CHARS are numbers and signs
_MAX_TEXT_CHARS: Final = 20 << 10
#: beginning of a text in which secrets are looked for: one that begins where it is shown must end here
_EXAMINED_CHARS: Final = 8_000
#: longest secret that is still found where an examined beginning ends
_MAX_SECRET_CHARS: Final = 4_000
_MAX_SAFE: Final = (1 << 53) - 1
#: more digits are never shown, and take long to write
_MAX_DECIMAL_BITS: Final = 4 * MAX_CHARS
_EPOCH: Final = datetime.datetime(1970, 1, 1)
_TEXTS: Final[Sequence[tuple[type, Callable[[Any], str]]]] = (
    (datetime.datetime, datetime.datetime.isoformat),
    (datetime.date, datetime.date.isoformat),
    (datetime.time, datetime.time.isoformat),
    (datetime.timedelta, datetime.timedelta.__str__),
    (decimal.Decimal, decimal.Decimal.__str__),
    (uuid.UUID, uuid.UUID.__str__),
    (complex, complex.__repr__),
)
_LISTS: Final = (list, set, frozenset, deque)
_CONTAINERS: Final = (Row, tuple, dict, *_LISTS, np.ndarray)


class PeekedValues:
    """Shows rows of one job.

    Args:
        masked: names of the columns that nobody may see, in any case, beside those that look like secrets; "*": all.
        redact: takes the values of the job's secrets out of a text.
    """

    def __init__(self, masked: Iterable[str], redact: Callable[[str], str]) -> None:
        names = {name.strip().lower() for name in masked if name.strip()}
        self._hides_all = ALL_COLUMNS in names
        self._masked = names
        self._redact = redact
        self._is_cut = False
        self._parts = 0
        self._left_chars = 0

    @classmethod
    def of_job(cls, configuration: Configuration, redact: Callable[[str], str]) -> PeekedValues:
        """Return what shows rows of a job, whose configuration may name columns to be masked."""
        return cls((configuration.get(options.PEEK_MASKED_COLUMNS) or "").split(","), redact)

    def shown(self, value: Any, type_info: TypeInformation | None) -> tuple[str, bool]:
        """Return a row as JSON, and whether a part of it was left out.

        Args:
            value: the row.
            type_info: its type, which may name the fields of a row that does not.
        """
        self._is_cut, self._parts, self._left_chars = False, 0, _MAX_TEXT_CHARS
        text = json.dumps(self._of(value, type_info, 0), separators=(",", ":"))
        return (text, self._is_cut) if len(text) <= MAX_ROW_CHARS else ('"…"', True)

    def _of(self, value: Any, type_info: TypeInformation | None, depth: int) -> Any:
        self._parts += 1
        of = type(value)
        if issubclass(of, _CONTAINERS):
            return self._nested(value, of, type_info, depth)
        if self._hides_all or issubclass(of, SecretRef):
            return HIDDEN
        if issubclass(of, enum.Enum):
            return self._text(str(object.__getattribute__(value, "_name_")))
        if issubclass(of, np.generic):
            return self._of_numpy(value, depth)
        if value is None or of is bool:
            return value
        if issubclass(of, int):
            number = int.__int__(value)
            return number if abs(number) <= _MAX_SAFE else self._text(_digits(number))
        if issubclass(of, float):
            real = float.__float__(value)
            return real if math.isfinite(real) else str(real)
        if issubclass(of, str):
            return self._text(value)
        if issubclass(of, (bytes, bytearray)):
            kind = bytes if issubclass(of, bytes) else bytearray
            return self._bytes(bytes(kind.__getitem__(value, slice(_EXAMINED_CHARS))), kind.__len__(value))
        if issubclass(of, Instant):
            return _instant_text(value)
        for plain, text_of in _TEXTS:
            if issubclass(of, plain):
                return self._text(text_of(value))
        return self._nested(value, of, None, depth)

    def _of_numpy(self, value: np.generic, depth: int) -> Any:
        if value.dtype.names is not None:
            return self._nested(value, type(value), None, depth)
        if isinstance(value, (np.datetime64, np.timedelta64)):
            return self._text(str(value))
        plain = value.item()
        # of what is longer than Python's numbers, numpy makes none
        return self._text(str(value)) if isinstance(plain, np.generic) else self._of(plain, None, depth)

    def _nested(self, value: Any, of: type, type_info: TypeInformation | None, depth: int) -> Any:
        if depth >= MAX_DEPTH:
            self._is_cut = True
            return "…"
        if issubclass(of, (Row, tuple)):
            return self._fields(value, of, type_info, depth)
        if issubclass(of, dict):
            of_value = getattr(type_info, "value_type", None)
            # of a map keys are values, too, and no names of columns
            hides_keys = self._hides_all and isinstance(type_info, MapTypeInfo)
            shown = {}
            for key, part in self._some(dict.items(value), dict.__len__(value)):
                name, known_as = self._key(key)
                shown[HIDDEN if hides_keys else name] = self._column(known_as, part, of_value, depth)
            return shown
        if issubclass(of, np.ndarray):
            return self._array(np.ndarray.view(value, np.ndarray), depth)
        if issubclass(of, _LISTS):
            kind = next(kind for kind in _LISTS if issubclass(of, kind))
            of_part = getattr(type_info, "element_type", None)
            parts = self._some(kind.__iter__(value), kind.__len__(value))
            return [self._of(part, of_part, depth + 1) for part in parts]
        if issubclass(of, np.void):
            names = value.dtype.names
            some = self._some(names, len(names))
            return {self._name(name): self._column(name, value[name], None, depth) for name in some}
        attributes = _attributes_of(value)
        some = self._some(attributes, len(attributes))
        columns = {self._name(name): self._attribute(name, part, depth) for name, part in some}
        return {"$class": self._name(_name_of(of)), **columns}

    def _array(self, array: np.ndarray[Any, Any], depth: int) -> Any:
        if array.ndim == 0:
            return self._of(array[()], None, depth + 1)
        return [self._of(part, None, depth + 1) for part in self._some(array, len(array))]

    def _fields(self, value: Any, of: type, type_info: TypeInformation | None, depth: int) -> Any:
        values: Sequence[Any]
        if issubclass(of, Row):
            values, names = _ROW_VALUES(value), _ROW_NAMES(value)
        else:
            values, names = tuple.__getitem__(value, slice(None)), _tuple_names(value)
        if names is None and isinstance(type_info, RowTypeInfo):
            names = type_info.field_names
        of_parts = itertools.chain(getattr(type_info, "field_types", ()), itertools.repeat(None))
        fields = self._some(zip(values, of_parts, strict=False), len(values))
        if names is None:
            return [self._of(part, of_part, depth + 1) for part, of_part in fields]
        named = zip(map(_text_of_name, names), fields, strict=False)
        return {self._name(name): self._column(name, part, of_part, depth) for name, (part, of_part) in named}

    def _column(self, name: str, value: Any, type_info: TypeInformation | None, depth: int) -> Any:
        if name.strip().lower() in self._masked or is_secret_column(name):
            return HIDDEN
        return self._of(value, type_info, depth + 1)

    def _attribute(self, name: str, value: Any, depth: int) -> Any:
        """Return what is shown of an attribute; "_email" and "__email" of a class are its email, too."""
        public = name.lstrip("_").lower()
        if public in self._masked or public.rpartition("__")[2] in self._masked:
            return HIDDEN
        return self._column(name, value, None, depth)

    def _key(self, key: Any) -> tuple[str, str]:
        """Return what is shown of a key, and the name of a column that it may be."""
        if issubclass(type(key), str):
            name = str.__str__(key)
            return self._name(name), name
        shown = self._of(key, None, MAX_DEPTH - 1)
        name = shown if isinstance(shown, str) else json.dumps(shown)
        if issubclass(type(key), bytes):
            return name, bytes.decode(bytes.__getitem__(key, slice(_EXAMINED_CHARS)), "utf-8", "replace")
        return name, name

    def _name(self, name: str) -> str:
        """Return what is shown of a name: also where no value is any longer, or columns would seem to be fewer."""
        shown = self._beginning(name, MAX_CHARS)
        self._left_chars -= len(json.dumps(shown))
        return shown

    def _some(self, items: Iterable[Any], count: int) -> Iterable[Any]:
        left = max(0, min(MAX_ITEMS, MAX_PARTS - self._parts))
        self._is_cut |= count > left
        return itertools.islice(items, left)

    def _text(self, text: str) -> str:
        if self._left_chars <= 0:
            self._is_cut = True
            return "…"
        shown = self._beginning(text, min(MAX_CHARS, self._left_chars))
        size = len(json.dumps(shown))
        if size > self._left_chars:
            # such signs are longer as JSON
            self._is_cut = True
            shown = f"{shown[: len(shown) * self._left_chars // size]}…"
        self._left_chars -= size
        return shown

    def _beginning(self, text: str, limit: int) -> str:
        length = str.__len__(text)
        examined = str.__str__(text) if length <= _EXAMINED_CHARS else str.__getitem__(text, slice(_EXAMINED_CHARS))
        shown = self._redact(examined)
        if len(shown) <= limit and length <= _EXAMINED_CHARS:
            return shown
        self._is_cut = True
        if length > _EXAMINED_CHARS:
            # where secrets were taken out, what stood near the end of the examined beginning has moved up: a part of
            # one, which is not found
            removed = max(0, len(examined) - len(shown))
            limit = max(0, min(limit, _EXAMINED_CHARS - _MAX_SECRET_CHARS - removed))
        return f"{shown[:limit]}…"

    def _bytes(self, start: bytes, length: int) -> str:
        if self._left_chars <= 0:
            self._is_cut = True
            return "…"
        text = start.decode("utf-8", "replace")
        # hexadecimal digits are read by nobody who looks for secrets later
        if self._redact(text) != text or has_secret_word(text[:MAX_CHARS]):
            return HIDDEN
        shown = start[: min(MAX_CHARS, self._left_chars) // 2].hex()
        self._left_chars -= len(shown)
        if 2 * length <= len(shown):
            return shown
        self._is_cut = True
        return f"{shown}…"


_ROW_VALUES: Final = Row.__dict__["_values"].__get__
_ROW_NAMES: Final = Row.__dict__["_fields"].__get__


def _text_of_name(name: Any) -> str:
    return str.__str__(name) if issubclass(type(name), str) else _name_of(type(name))


def _tuple_names(value: Any) -> Sequence[str] | None:
    """Return the names of the fields of a named tuple, or of a row of Spark."""
    found = next((members["_fields"] for _, members in _classes_of(value) if "_fields" in members), None)
    if type(found) is not tuple:
        found = _own_attributes(value).get("__fields__")
    return found if type(found) in (tuple, list) else None


def _name_of(of: type) -> str:
    return str(type.__getattribute__(of, "__qualname__"))


def _classes_of(value: Any) -> Iterable[tuple[type, Mapping[str, Any]]]:
    """Yield the classes of a value, the nearest first, with their members; a metaclass may be the user's, too."""
    for of in type.__getattribute__(type(value), "__mro__"):
        yield of, type.__getattribute__(of, "__dict__")


def _own_attributes(value: Any) -> dict[Any, Any]:
    for _, members in _classes_of(value):
        member = members.get("__dict__")
        if isinstance(member, types.GetSetDescriptorType):
            own = member.__get__(value)
            return own if type(own) is dict else {}
    return {}


def _attributes_of(value: Any) -> list[tuple[str, Any]]:
    """Return the attributes that an object has itself; properties are the user's code."""
    found = [(_text_of_name(name), part) for name, part in _own_attributes(value).items()]
    for of, members in _classes_of(value):
        slots = members.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else _names_of(slots):
            # of a class with two underscores before it, another name is the attribute's
            for attribute in (name, f"_{_name_of(of).rpartition('.')[2].lstrip('_')}{name}"):
                member = members.get(attribute)
                if isinstance(member, types.MemberDescriptorType):
                    with contextlib.suppress(AttributeError):
                        found.append((attribute, member.__get__(value)))
    return found


def _names_of(slots: Any) -> Sequence[str]:
    if type(slots) not in (tuple, list, set, frozenset, dict):
        return ()
    return [name for name in slots if type(name) is str]


def _digits(number: int) -> str:
    excess = number.bit_length() - _MAX_DECIMAL_BITS
    if excess <= 0:
        return str(number)
    # the first digits; there are more of them than are shown
    return f"{'-' if number < 0 else ''}{hex(abs(number) >> (excess // 4 * 4))}"


def _instant_text(instant: Instant) -> str:
    digits = f"{instant.nanos:09d}".rstrip("0").ljust(3, "0")
    try:
        moment = _EPOCH + datetime.timedelta(seconds=instant.seconds)
    except OverflowError:
        # before the year 1, or after 9999
        return f"{instant.seconds}.{digits} s"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{digits}Z"
