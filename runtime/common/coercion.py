"""Conversion of Python values to a declared type; called once per record, so every decision is made beforehand.

A coercer takes a value and returns it in the type's form, or raises TypeError, or OverflowError for a number beyond the
type's range; the message has the path of field names to the value. What would lose a part of a value is refused.
None passes every coercer: all types are nullable. `runtime.common.typeinfo` puts these functions together.
Source: what PyFlink's coders do to values on their way through the JVM; docs/pyflink-differences.md lists where they
lose something.
"""

from __future__ import annotations

import datetime
import decimal
import math
import numbers
import struct
from array import array
from collections.abc import Callable, Sequence
from typing import Any, Final

from runtime.common.time import Instant
from runtime.common.types import Row, RowKind, row_of

__all__ = [
    "Coercer",
    "all_fit",
    "coerce_big_dec",
    "coerce_big_int",
    "coerce_boolean",
    "coerce_byte",
    "coerce_bytes",
    "coerce_char",
    "coerce_date",
    "coerce_double",
    "coerce_float",
    "coerce_instant",
    "coerce_int",
    "coerce_long",
    "coerce_short",
    "coerce_string",
    "coerce_time",
    "coerce_timestamp",
    "exact_coercer",
    "integer_coercer",
    "list_coercer",
    "map_coercer",
    "misfit",
    "overflow",
    "row_coercer",
    "settled_test",
    "tuple_coercer",
]

Coercer = Callable[[Any], Any]

MISFITS: Final = (TypeError, OverflowError)
"""Errors that coercers raise."""
_FLOAT32 = struct.Struct("<f")


def misfit(value: Any, type_name: str, hint: str = "") -> TypeError:
    """Return the error for a value that is not of its type; the value is cut at 100 characters."""
    return TypeError(_does_not_fit(value, type_name, hint))


def overflow(value: Any, type_name: str, hint: str = "") -> OverflowError:
    """Return the error for a number beyond the range of its type."""
    return OverflowError(_does_not_fit(value, type_name, hint))


def _does_not_fit(value: Any, type_name: str, hint: str) -> str:
    shown = repr(value)
    shown = shown if len(shown) <= 100 else shown[:97] + "..."
    return f"{shown} ({type(value).__name__}) does not fit {type_name}{hint and '; ' + hint}"


def exact_coercer(cls: type, type_name: str) -> Coercer:
    """Return a coercer that lets instances of `cls` and of its subclasses pass; bool is not taken for an int."""

    def coerce(value: Any) -> Any:
        if value.__class__ is cls or value is None:
            return value
        if isinstance(value, cls) and not isinstance(value, bool):
            return value
        raise misfit(value, type_name)

    return coerce


def coerce_boolean(value: Any) -> Any:
    """Coerce booleans, and 0 and 1; every other number has more to say than a BOOLEAN can."""
    if value is True or value is False or value is None:
        return value
    if _is_numpy_bool(value):
        return bool(value)
    if isinstance(value, numbers.Integral) and value in (0, 1):
        return bool(value)
    raise misfit(value, "BOOLEAN", "True, False, 1 and 0 do" if isinstance(value, numbers.Real) else "")


def integer_coercer(bits: int, type_name: str, wider: str) -> Coercer:
    """Return a coercer of integers of that many bits, and of other numbers without a fraction.

    Args:
        bits: of the type, the sign's included.
        type_name: for the errors.
        wider: the type that the errors recommend for what is out of range.
    """
    lowest, highest = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def coerce(value: Any) -> Any:
        if value.__class__ is int:
            if lowest <= value <= highest:
                return value
            raise overflow(value, type_name, f"it has {bits} bits; {wider}")
        return None if value is None else coerce(_as_int(value, type_name))

    return coerce


coerce_byte = integer_coercer(8, "BYTE", "Types.INT() or Types.LONG() has more")
coerce_short = integer_coercer(16, "SHORT", "Types.INT() or Types.LONG() has more")
coerce_int = integer_coercer(32, "INT", "Types.LONG() has 64")
coerce_long = integer_coercer(64, "LONG", "Types.BIG_INT() has no limit")


def coerce_big_int(value: Any) -> Any:
    if value.__class__ is int or value is None:
        return value
    return _as_int(value, "BIG_INT")


def coerce_double(value: Any) -> Any:
    if value.__class__ is float or value is None:
        return value
    return _as_float(value, "DOUBLE")


def coerce_float(value: Any) -> Any:
    """Round to 32 bits; beyond their range the result is infinite, as a cast in Java is."""
    if value is None:
        return None
    if value.__class__ is not float:
        value = _as_float(value, "FLOAT")
    try:
        return _FLOAT32.unpack(_FLOAT32.pack(value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def coerce_char(value: Any) -> Any:
    if value is None or (isinstance(value, str) and len(value) == 1):
        return value
    raise misfit(value, "CHAR", "it is a string of one character")


def coerce_big_dec(value: Any) -> Any:
    """Coerce to decimal numbers with all their digits; for a float, the shortest digits that give it back."""
    if value.__class__ is decimal.Decimal:
        if value.is_finite():
            return value
        raise misfit(value, "BIG_DEC", "it has neither NaN nor infinities")
    if value is None:
        return None
    if isinstance(value, (float, decimal.Decimal)):
        return coerce_big_dec(decimal.Decimal(repr(float(value)) if isinstance(value, float) else value))
    return decimal.Decimal(_as_int(value, "BIG_DEC"))


def coerce_date(value: Any) -> Any:
    if value.__class__ is datetime.date or value is None:
        return value
    if isinstance(value, datetime.datetime):
        return value.date()
    raise misfit(value, "SQL_DATE")


def coerce_time(value: Any) -> Any:
    """Coerce times of day, cut to milliseconds."""
    if value is None:
        return None
    if not isinstance(value, datetime.time) or value.tzinfo is not None:
        raise misfit(value, "SQL_TIME", "it is a datetime.time without a time zone")
    return value if value.microsecond % 1_000 == 0 else value.replace(microsecond=value.microsecond // 1_000 * 1_000)


def coerce_timestamp(value: Any) -> Any:
    """Coerce date-times without a zone; one with a zone is turned into UTC."""
    if value is None:
        return None
    if not isinstance(value, datetime.datetime):
        raise misfit(value, "SQL_TIMESTAMP")
    return value if value.tzinfo is None else value.astimezone(datetime.UTC).replace(tzinfo=None)


coerce_string = exact_coercer(str, "STRING")
coerce_instant = exact_coercer(Instant, "INSTANT")


def coerce_bytes(value: Any) -> Any:
    if value.__class__ is bytes or value is None:
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, (list, tuple)):
        return bytes(map(_unsigned_byte, value))
    raise misfit(value, "PRIMITIVE_ARRAY(BYTE)")


def _unsigned_byte(item: Any) -> int:
    """Return 0 to 255 for a byte, signed as in Java or unsigned as in Python."""
    if item.__class__ is int and 127 < item < 256:
        return int(item)
    if item is None:
        raise misfit(item, "PRIMITIVE_ARRAY(BYTE)")
    return int(coerce_byte(item)) & 0xFF


#: the class whose instances pass these coercers as they are, and the code of the array that holds all such numbers
_PASSING: dict[Coercer, tuple[type, str]] = {
    coerce_byte: (int, "b"),
    coerce_short: (int, "h"),
    coerce_int: (int, "i"),
    coerce_long: (int, "q"),
    coerce_big_int: (int, ""),
    coerce_double: (float, ""),
    coerce_boolean: (bool, ""),
    coerce_string: (str, ""),
    coerce_bytes: (bytes, ""),
    coerce_instant: (Instant, ""),
}


def all_fit(coercer: Coercer, values: Sequence[Any]) -> bool:
    """Return whether a coercer is seen, without calling it for each, to return all values as they are.

    False also says that it is not known: among them is a None, or the type is not a simple one.
    """
    if isinstance(coercer, _TupleCoercer):
        return coercer.all_fit(values)
    cls, code = _PASSING.get(coercer, (None, ""))
    if cls is None:
        return False
    classes = list(map(type, values))
    if classes.count(cls) != len(classes):
        return False
    if code:
        try:
            array(code, values)
        except OverflowError:
            return False
    return True


def list_coercer(element: Coercer | None, type_name: str) -> Coercer:
    """Return a coercer of lists, and of what becomes one: tuples, array.array, numpy arrays."""

    def coerce(value: Any) -> Any:
        if value is None:
            return None
        if value.__class__ is not list:
            if isinstance(value, (list, tuple)):
                value = list(value)
            elif hasattr(value, "tolist"):
                value = value.tolist()
            else:
                raise misfit(value, type_name)
        return value if element is None else [element(item) for item in value]

    return coerce


def map_coercer(key: Coercer | None, item: Coercer | None) -> Coercer:
    """Return a coercer of dicts."""

    def coerce(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise misfit(value, "MAP")
        if key is None and item is None:
            return value
        return {(k if key is None else key(k)): (v if item is None else item(v)) for k, v in value.items()}

    return coerce


_SETTLED_BY_CLASS: frozenset[Coercer] = frozenset(
    (coerce_string, coerce_boolean, coerce_double, coerce_big_int, coerce_date, coerce_bytes, coerce_instant)
)
"""Coercers that have nothing to do for values of the type's exact class."""


_EXACT: dict[Coercer, type] = {coercer: cls for coercer, (cls, _) in _PASSING.items()} | {coerce_date: datetime.date}

_RANGES: dict[Coercer, tuple[int, int]] = {
    coerce_byte: (-(1 << 7), (1 << 7) - 1),
    coerce_short: (-(1 << 15), (1 << 15) - 1),
    coerce_int: (-(1 << 31), (1 << 31) - 1),
    coerce_long: (-(1 << 63), (1 << 63) - 1),
}
"""Coercers that have nothing to do for ints of this range; comparing here saves a call per field."""


def settled_test(coercer: Coercer | None, value: str, names: dict[str, Any]) -> str | None:
    """Return Python text that tells whether a coercer has nothing to do; None if only calling it can tell.

    Code that runs for every record is made with it: the comparisons cost a fraction of the call.

    Args:
        coercer: of the value; None passes everything.
        value: text of the value in the code to be made: a name, or an element of one.
        names: gains what the text refers to.
    """
    if coercer is None:
        return "True"
    if isinstance(coercer, _TupleCoercer):
        return coercer.settled_test(value, names)
    if coercer not in _SETTLED_BY_CLASS and coercer not in _RANGES:
        return None
    cls = _EXACT[coercer]
    names[cls.__name__] = cls
    test = f"{value}.__class__ is {cls.__name__}"
    if coercer in _RANGES:
        lowest, highest = _RANGES[coercer]
        test += f" and {lowest} <= {value} <= {highest}"
    return test


class _Fields:
    """Coerces the fields of one record: by their exact classes where that settles it, else one by one."""

    __slots__ = ("_classes", "_coercers", "_names", "_ranges", "_remaining")

    def __init__(self, names: Sequence[str], coercers: Sequence[Coercer | None], classes: Sequence[type | None]):
        self._names = names
        self._coercers = coercers
        #: what `map(type, values)` gives for a record that is right as it is, but for the `remaining` fields
        self._classes = None if None in classes else list(classes)
        self._ranges = [(i, *_RANGES[c]) for i, c in enumerate(coercers) if c is not None and c in _RANGES]
        settled = _SETTLED_BY_CLASS | _RANGES.keys()
        self._remaining = [(i, c) for i, c in enumerate(coercers) if c is not None and c not in settled]

    def coerce(self, values: list[Any] | tuple[Any, ...]) -> list[Any] | tuple[Any, ...]:
        """Return the values in their types' forms; the sequence given, if nothing had to change."""
        if self._classes is not None and list(map(type, values)) == self._classes:
            for i, lowest, highest in self._ranges:
                if not lowest <= values[i] <= highest:
                    return self._one_by_one(values)
            for i, coercer in self._remaining:
                value = values[i]
                try:
                    fitted = coercer(value)
                except MISFITS as error:
                    raise type(error)(f"field {self._names[i]!r}: {error}") from None
                if fitted is not value:
                    return self._one_by_one(values)
            return values
        return self._one_by_one(values)

    def _one_by_one(self, values: Sequence[Any]) -> list[Any]:
        if len(values) != len(self._names):
            raise TypeError(f"{len(values)} values for {len(self._names)} fields {list(self._names)}: {values!r:.100}")
        fitted: list[Any] = []
        for name, coercer, value in zip(self._names, self._coercers, values, strict=True):
            try:
                fitted.append(value if coercer is None else coercer(value))
            except MISFITS as error:
                raise type(error)(f"field {name!r}: {error}") from None
        return fitted


def row_coercer(
    names: tuple[str, ...], named: bool, coercers: Sequence[Coercer | None], classes: Sequence[type | None]
) -> Coercer:
    """Return a coercer of rows, tuples, lists and dicts; the result is a Row with these field names.

    Args:
        names: the fields' names.
        named: whether the user gave them; then a Row's own names decide which value goes where.
        coercers: one a field.
        classes: the exact class that values of a field usually have, None if there is none.
    """
    fields = _Fields(names, coercers, classes)
    fit = fields.coerce
    known = frozenset(names)

    def coerce(value: Any) -> Any:
        cls = value.__class__
        if cls is Row:
            values, kind, own_names = value._values, value._row_kind, value._fields
            if own_names is not names:
                if named and own_names is not None and own_names != names:
                    try:
                        values = value.get_fields_by_names(names)
                    except ValueError as error:
                        raise TypeError(str(error)) from None
            else:
                fitted = fit(values)
                if fitted is values:
                    return value
                values = fitted
                row = row_of(values, names)
                row._row_kind = kind
                return row
            row = row_of(fit(values), names)
            if kind is not RowKind.INSERT:
                row._row_kind = kind
            return row
        if cls is tuple or cls is list:
            fitted = fit(value)
            # a list stays its owner's, who may still change it
            return row_of(list(fitted) if fitted is value and cls is list else fitted, names)
        if value is None:
            return None
        if isinstance(value, dict):
            if not value.keys() <= known:
                unknown = ", ".join(repr(name) for name in value if name not in known)
                raise TypeError(f"the row's type has no field {unknown}: it has {', '.join(names)}")
            return row_of(fit([value.get(name) for name in names]), names)
        if isinstance(value, (tuple, list)):
            return row_of(fit(list(value)), names)
        raise misfit(value, "ROW", "a Row, tuple, list or dict does")

    return coerce


class _TupleCoercer:
    """Makes tuples of the fields' types."""

    __slots__ = ("_coercers", "_fit")

    def __init__(self, coercers: Sequence[Coercer | None], classes: Sequence[type | None]) -> None:
        self._coercers = coercers
        self._fit = _Fields([f"f{i}" for i in range(len(coercers))], coercers, classes).coerce

    def __call__(self, value: Any) -> Any:
        if value.__class__ is not tuple:
            if value is None:
                return None
            if isinstance(value, Row):
                value = tuple(value)
            elif not isinstance(value, (tuple, list)):
                raise misfit(value, "TUPLE", "a tuple, list or Row does")
        fitted = self._fit(value)
        return fitted if fitted.__class__ is tuple else tuple(fitted)

    def settled_test(self, value: str, names: dict[str, Any]) -> str | None:
        tests = [settled_test(coercer, f"{value}[{i}]", names) for i, coercer in enumerate(self._coercers)]
        known = [test for test in tests if test is not None]
        if len(known) < len(tests):
            return None
        return " and ".join([f"{value}.__class__ is tuple and len({value}) == {len(known)}", *known])

    def all_fit(self, values: Sequence[Any]) -> bool:
        """Check like the function of that name: a look at each column, in an eighth of the time."""
        if list(map(type, values)).count(tuple) != len(values) or set(map(len, values)) != {len(self._coercers)}:
            return False
        columns = zip(*values, strict=True)
        return all(
            coercer is None or all_fit(coercer, column) for coercer, column in zip(self._coercers, columns, strict=True)
        )


def tuple_coercer(coercers: Sequence[Coercer | None], classes: Sequence[type | None]) -> Coercer:
    """Return a coercer of tuples, and of lists and Rows of the right length; the result is a tuple."""
    return _TupleCoercer(coercers, classes)


def _is_numpy_bool(value: Any) -> bool:
    # without importing numpy, whose older versions say bool_
    return type(value).__name__ in ("bool", "bool_")


def _as_int(value: Any, type_name: str) -> int:
    if isinstance(value, numbers.Integral) or _is_numpy_bool(value):
        return int(value)
    is_number = isinstance(value, (numbers.Real, decimal.Decimal))
    if not is_number or not math.isfinite(value):
        raise misfit(value, type_name)
    whole = int(value)
    if value != whole:
        raise misfit(value, type_name, "its fraction would be lost: round it, or declare Types.DOUBLE()")
    return whole


def _as_float(value: Any, type_name: str) -> float:
    if not isinstance(value, (numbers.Real, decimal.Decimal)):
        raise misfit(value, type_name)
    try:
        return float(value)
    except OverflowError:
        raise overflow(value, type_name) from None
