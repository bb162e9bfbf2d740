"""Expressions of the generated program, and how they become text.

A program is made of these values and never by joining texts: what a document holds becomes a `Literal`, whose text
is the `repr` of a plain Python value, so that no parameter can be anything but a value. Long calls are broken into
lines as ruff's formatter does. Pure.
"""

from __future__ import annotations

import datetime
import decimal
import keyword
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runtime.common.time import Duration
from runtime.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)

WIDTH = 110
_INDENT = "    "


class Expr:
    """An expression of Python."""

    def call(self, method: str, *args: Expr, **named: Expr) -> Method:
        """Return a call of a method of its value."""
        return Method(self, method, args, tuple(named.items()))


@dataclass(frozen=True)
class Literal(Expr):
    """A plain value: None, bool, int, float, str or bytes."""

    value: bool | int | float | str | bytes | None


@dataclass(frozen=True)
class Imported(Expr):
    """A name of a module."""

    module: str
    name: str

    def __call__(self, *args: Expr, **named: Expr) -> Call:
        return Call(self, args, tuple(named.items()))

    def attribute(self, name: str) -> Attribute:
        return Attribute(self, name)


@dataclass(frozen=True)
class Variable(Expr):
    """A name that the program defines."""

    name: str
    is_environment: bool = False
    """Whether it is the environment: the first method of a chain stays on its line."""


@dataclass(frozen=True)
class Attribute(Expr):
    """`of.name`."""

    of: Expr
    name: str


@dataclass(frozen=True)
class Listing(Expr):
    """A list, a tuple ("()") or a dict ("{}", of pairs)."""

    items: tuple[Any, ...]
    brackets: str = "[]"


@dataclass(frozen=True)
class Call(Expr):
    """A call. A name that no parameter can have goes into `**{…}`."""

    function: Expr
    args: tuple[Expr, ...] = ()
    named: tuple[tuple[str, Expr], ...] = ()


@dataclass(frozen=True)
class Method(Expr):
    """A call of a method; a chain of them is broken before the dots."""

    on: Expr
    name: str
    args: tuple[Expr, ...] = ()
    named: tuple[tuple[str, Expr], ...] = ()


@dataclass(frozen=True)
class Statement:
    """A piece of the program: the comment above it, and an assignment or an expression."""

    value: Expr
    target: str | None = None
    comment: str | None = None


@dataclass
class Imports:
    """The imports that expressions need."""

    found: dict[str, set[str]] = field(default_factory=dict)

    def add(self, expression: Any) -> None:
        """Add those of an expression."""
        todo = [expression]
        while todo:
            item = todo.pop()
            if isinstance(item, Imported):
                self.found.setdefault(item.module, set()).add(item.name)
            elif isinstance(item, Attribute):
                todo.append(item.of)
            elif isinstance(item, Listing):
                todo += item.items
            elif isinstance(item, Call):
                todo += [item.function, *item.args, *(value for _, value in item.named)]
            elif isinstance(item, Method):
                todo += [item.on, *item.args, *(value for _, value in item.named)]
            elif isinstance(item, tuple):
                todo += item

    def lines(self) -> list[str]:
        """Return the import statements, sorted as ruff sorts them."""
        made: list[str] = []
        for module in sorted(self.found, key=lambda module: (module.startswith("runtime"), module)):
            names = sorted(self.found[module] - {""}, key=_import_order)
            if "" in self.found[module]:
                made.append(f"import {module}")
            if names:
                line = f"from {module} import {', '.join(names)}"
                if len(line) > WIDTH:
                    made += [f"from {module} import (", *(f"{_INDENT}{name}," for name in names), ")"]
                else:
                    made.append(line)
        return made

    def names(self) -> set[str]:
        """Return the names that the imports define."""
        return {name or module for module, names in self.found.items() for name in names}


def _import_order(name: str) -> tuple[int, str]:
    # constants, classes, functions
    return (0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2, name)


# --- text ------------------------------------------------------------------------------------------------------------


def literal_text(value: Any) -> str:
    """Return the text of a plain value; texts in double quotes where their characters allow it.

    Raises:
        TypeError: it is no plain value.
    """
    if isinstance(value, str):
        text = repr(str(value))
        return f'"{text[1:-1]}"' if text[0] == "'" and '"' not in value and "'" not in value else text
    if value is None or type(value) in (bool, int, bytes):
        return repr(value)
    if type(value) is float:
        if value != value or value in (float("inf"), float("-inf")):
            return f'float("{value!r}")'
        return repr(value)
    raise TypeError(f"a literal must be a plain value, not {value!r}")


def comment_text(text: str) -> str:
    """Return a text as a comment of one line, whatever its characters."""
    return "# " + repr(text)[1:-1].replace("\\'", "'")


def statement_text(statement: Statement) -> list[str]:
    """Return the lines of a statement, its comment included."""
    lines = [] if statement.comment is None else [comment_text(statement.comment)]
    start = "" if statement.target is None else f"{statement.target} = "
    flat = start + _flat(statement.value)
    if len(flat) <= WIDTH and "\n" not in flat:
        return [*lines, flat]
    chain = _chain(statement.value)
    if chain is not None:
        first, calls = chain
        parts = [_INDENT + _broken(first, 1)]
        parts += [_INDENT + _call_text(f".{call.name}", call.args, call.named, 1, len(_INDENT)) for call in calls]
        return [*lines, f"{start}(", *"\n".join(parts).split("\n"), ")"]
    return [*lines, *(start + _broken(statement.value, 0, len(start))).split("\n")]


def _chain(expression: Expr) -> tuple[Expr, list[Method]] | None:
    """Return where a chain of methods begins, and its calls; None if there are fewer than two."""
    calls: list[Method] = []
    while isinstance(expression, Method):
        calls.insert(0, expression)
        expression = expression.on
    if isinstance(expression, Variable) and expression.is_environment and calls:
        expression, calls = calls[0], calls[1:]
    return (expression, calls) if len(calls) > 1 or (calls and isinstance(expression, Method)) else None


def _flat(expression: Expr) -> str:
    if isinstance(expression, Literal):
        return literal_text(expression.value)
    if isinstance(expression, Imported):
        return expression.name or expression.module
    if isinstance(expression, Variable):
        return expression.name
    if isinstance(expression, Attribute):
        return f"{_flat(expression.of)}.{expression.name}"
    if isinstance(expression, Listing):
        items = ", ".join(_item(item) for item in expression.items)
        comma = "," if expression.brackets == "()" and len(expression.items) == 1 else ""
        return f"{expression.brackets[0]}{items}{comma}{expression.brackets[1]}"
    if isinstance(expression, Call):
        return f"{_flat(expression.function)}({', '.join(_arguments(expression.args, expression.named))})"
    assert isinstance(expression, Method)
    return f"{_flat(expression.on)}.{expression.name}({', '.join(_arguments(expression.args, expression.named))})"


def _item(item: Any) -> str:
    return f"{_flat(item[0])}: {_flat(item[1])}" if isinstance(item, tuple) else _flat(item)


def _arguments(args: Iterable[Expr], named: Iterable[tuple[str, Expr]]) -> list[str]:
    plain = [f"{name}={_flat(value)}" for name, value in named if is_argument(name)]
    odd = [f"{literal_text(name)}: {_flat(value)}" for name, value in named if not is_argument(name)]
    return [*map(_flat, args), *plain, *([f"**{{{', '.join(odd)}}}"] if odd else [])]


def is_argument(name: str) -> bool:
    """Return whether a name can stand before the "=" of an argument; words of Python cannot."""
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name)


def _broken(expression: Expr, level: int, used: int | None = None) -> str:
    """Return an expression's text, over several lines if it does not fit.

    Args:
        expression: to be shown.
        level: of indentation.
        used: characters before it on its line; None: the indentation.
    """
    flat = _flat(expression)
    if len(flat) + (len(_INDENT) * level if used is None else used) < WIDTH:
        return flat
    if isinstance(expression, Call):
        return _call_text(_flat(expression.function), expression.args, expression.named, level, 0)
    if isinstance(expression, Method):
        return _call_text(
            f"{_broken(expression.on, level)}.{expression.name}", expression.args, expression.named, level, 0
        )
    if isinstance(expression, Listing) and expression.items:
        inner = _INDENT * (level + 1)
        lines = []
        for item in expression.items:
            if isinstance(item, tuple):
                lines.append(f"{inner}{_flat(item[0])}: {_broken(item[1], level + 1)},")
            else:
                lines.append(f"{inner}{_broken(item, level + 1)},")
        return "\n".join([expression.brackets[0], *lines, _INDENT * level + expression.brackets[1]])
    return flat


def _call_text(function: str, args: Sequence[Expr], named: Sequence[tuple[str, Expr]], level: int, used: int) -> str:
    flat = f"{function}({', '.join(_arguments(args, named))})"
    if len(flat) + max(used, len(_INDENT) * level) < WIDTH or not (args or named):
        return flat
    inner = _INDENT * (level + 1)
    lines = [f"{inner}{_broken(arg, level + 1)}," for arg in args]
    plain = [(name, value) for name, value in named if is_argument(name)]
    lines += [f"{inner}{name}={_broken(value, level + 1)}," for name, value in plain]
    odd = tuple((Literal(name), value) for name, value in named if not is_argument(name))
    if odd:
        lines.append(f"{inner}**{_broken(Listing(odd, '{}'), level + 1, WIDTH)},")
    return "\n".join([f"{function}(", *lines, f"{_INDENT * level})"])


# --- values and types ------------------------------------------------------------------------------------------------

COMMON = "runtime.common"
TYPES = Imported(COMMON, "Types")


def plain(value: Any) -> Expr:
    """Return a value of JSON as an expression."""
    if isinstance(value, Mapping):
        return Listing(tuple((Literal(name), plain(item)) for name, item in value.items()), "{}")
    if isinstance(value, list | tuple):
        return Listing(tuple(map(plain, value)))
    return Literal(value)


def texts(values: Iterable[str]) -> tuple[Expr, ...]:
    """Return texts as arguments."""
    return tuple(Literal(str(value)) for value in values)


def duration(text: str) -> Expr:
    """Return a duration, in its largest whole unit."""
    nanos = Duration.parse(text).nanos
    for unit, size in _DURATIONS:
        if nanos % size == 0:
            return Imported(COMMON, "Duration").call(f"of_{unit}", Literal(nanos // size))
    raise AssertionError("every duration is a number of nanoseconds")


_DURATIONS = (
    ("days", 86_400_000_000_000),
    ("hours", 3_600_000_000_000),
    ("minutes", 60_000_000_000),
    ("seconds", 1_000_000_000),
    ("millis", 1_000_000),
    ("nanos", 1),
)


def time(text: str) -> Expr:
    """Return a duration as a `Time`, in its largest whole unit; rounded down to milliseconds."""
    millis = Duration.parse(text).to_millis()
    for unit, size in (("days", 86_400_000), ("hours", 3_600_000), ("minutes", 60_000), ("seconds", 1_000)):
        if millis % size == 0 and millis:
            return Imported(COMMON, "Time").call(unit, Literal(millis // size))
    return Imported(COMMON, "Time").call("milliseconds", Literal(millis))


_FACTORIES = {
    BasicType.STRING: "STRING",
    BasicType.BYTE: "BYTE",
    BasicType.BOOLEAN: "BOOLEAN",
    BasicType.SHORT: "SHORT",
    BasicType.INT: "INT",
    BasicType.LONG: "LONG",
    BasicType.FLOAT: "FLOAT",
    BasicType.DOUBLE: "DOUBLE",
    BasicType.CHAR: "CHAR",
    BasicType.BIG_INT: "BIG_INT",
    BasicType.BIG_DEC: "BIG_DEC",
    BasicType.INSTANT: "INSTANT",
}
_SINGLE = {
    DateTypeInfo: "SQL_DATE",
    TimeTypeInfo: "SQL_TIME",
    TimestampTypeInfo: "SQL_TIMESTAMP",
    PickledBytesTypeInfo: "PICKLED_BYTE_ARRAY",
}
_SEQUENCES = {
    ListTypeInfo: "LIST",
    PrimitiveArrayTypeInfo: "PRIMITIVE_ARRAY",
    BasicArrayTypeInfo: "BASIC_ARRAY",
    ObjectArrayTypeInfo: "OBJECT_ARRAY",
}
_SEQUENCE_TYPES = (ListTypeInfo, PrimitiveArrayTypeInfo, BasicArrayTypeInfo, ObjectArrayTypeInfo)


def type_expr(type_info: TypeInformation) -> Expr:
    """Return the call that makes a type.

    Raises:
        TypeError: no call of `Types` makes it.
    """
    if isinstance(type_info, BasicTypeInfo):
        return TYPES.call(_FACTORIES[type_info.basic_type])
    if type(type_info) in _SINGLE:
        return TYPES.call(_SINGLE[type(type_info)])
    for kind, factory in _SEQUENCES.items():
        if type(type_info) is kind:
            return TYPES.call(factory, type_expr(type_info.element_type))
    if isinstance(type_info, MapTypeInfo):
        return TYPES.call("MAP", type_expr(type_info.key_type), type_expr(type_info.value_type))
    if isinstance(type_info, TupleTypeInfo):
        return TYPES.call("TUPLE", Listing(tuple(map(type_expr, type_info.field_types))))
    if isinstance(type_info, RowTypeInfo):
        types = Listing(tuple(map(type_expr, type_info.field_types)))
        if not type_info.is_named:
            return TYPES.call("ROW", types)
        return TYPES.call("ROW_NAMED", Listing(texts(type_info.field_names)), types)
    raise TypeError(f"{type_info} cannot be written as Python source")


def value_expr(type_info: TypeInformation, value: Any) -> Expr:
    """Return a value of JSON as a value of a type.

    Rows are lists or objects, bytes are hexadecimal, dates and times ISO texts, instants ms, decimals texts or numbers.

    Raises:
        ValueError: it is none of that type; the message says why.
    """
    if value is None:
        return Literal(None)
    if isinstance(type_info, RowTypeInfo | TupleTypeInfo):
        names = type_info.field_names if isinstance(type_info, RowTypeInfo) else None
        if isinstance(value, dict) and names is not None:
            unknown = next((name for name in value if name not in names), None)
            if unknown is not None:
                raise ValueError(f"there is no column {unknown!r}")
            value = [value.get(name) for name in names]
        if not isinstance(value, list) or len(value) != len(type_info.field_types):
            raise ValueError(f"{len(type_info.field_types)} values are needed, not {_shown(value)}")
        fields = zip(type_info.field_types, value, strict=True)
        return Listing(tuple(value_expr(field_type, item) for field_type, item in fields), "()")
    if isinstance(type_info, PrimitiveArrayTypeInfo) and type_info.is_bytes:
        return Literal(bytes.fromhex(_a(str, value, "hexadecimal digits")))
    if isinstance(type_info, _SEQUENCE_TYPES):
        return Listing(tuple(value_expr(type_info.element_type, item) for item in _a(list, value, "a list")))
    if isinstance(type_info, MapTypeInfo):
        pairs = _a(dict, value, "an object").items()
        return Listing(
            tuple((_map_key(type_info.key_type, k), value_expr(type_info.value_type, v)) for k, v in pairs), "{}"
        )
    if isinstance(type_info, TimestampTypeInfo):
        moment = datetime.datetime.fromisoformat(_a(str, value, "a date and time such as 2026-01-31T12:00:00"))
        if moment.tzinfo is not None:
            raise ValueError("a date and time without a zone is needed")
        return _from_iso("datetime", moment.isoformat())
    if isinstance(type_info, DateTypeInfo):
        return _from_iso("date", datetime.date.fromisoformat(_a(str, value, "a date such as 2026-01-31")).isoformat())
    if isinstance(type_info, TimeTypeInfo):
        return _from_iso("time", datetime.time.fromisoformat(_a(str, value, "a time such as 12:00:00")).isoformat())
    if not isinstance(type_info, BasicTypeInfo):
        raise ValueError(f"values of type {type_info} cannot be written as Python source")
    return _basic(type_info.basic_type, value)


def _basic(kind: BasicType, value: Any) -> Expr:
    if kind is BasicType.STRING:
        return Literal(_a(str, value, "a text"))
    if kind is BasicType.CHAR:
        if len(_a(str, value, "a character")) != 1:
            raise ValueError(f"one character is needed, not {_shown(value)}")
        return Literal(value)
    if kind is BasicType.BOOLEAN:
        return Literal(_a(bool, value, "true or false"))
    if kind in (BasicType.FLOAT, BasicType.DOUBLE):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"a number is needed, not {_shown(value)}")
        if kind is BasicType.FLOAT and abs(value) > _MAX_FLOAT:
            raise ValueError(f"{_shown(value)} is beyond the range of float")
        return Literal(float(value))
    if kind is BasicType.BIG_DEC:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError(f"a number is needed, not {_shown(value)}")
        try:
            return Imported("decimal", "Decimal")(Literal(str(decimal.Decimal(str(value)))))
        except decimal.InvalidOperation:
            raise ValueError(f"a number is needed, not {_shown(value)}") from None
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"a whole number is needed, not {_shown(value)}")
    limit = _RANGES.get(kind, _LONGEST)
    if not -limit <= value < limit:
        raise ValueError(f"{_shown(value)} is beyond the range of {kind.value}")
    if kind is BasicType.INSTANT:
        return Imported(COMMON, "Instant").call("of_epoch_milli", Literal(value))
    return Literal(value)


_RANGES = {
    BasicType.BYTE: 2**7,
    BasicType.SHORT: 2**15,
    BasicType.INT: 2**31,
    BasicType.LONG: 2**63,
    # microseconds have to fit 64 bits
    BasicType.INSTANT: 2**53,
}
_LONGEST = 10**38
_MAX_FLOAT = 3.4e38


def _map_key(type_info: TypeInformation, text: str) -> Expr:
    if isinstance(type_info, BasicTypeInfo) and type_info.basic_type in (BasicType.STRING, BasicType.CHAR):
        return Literal(text)
    return value_expr(type_info, int(text))


def _from_iso(kind: str, text: str) -> Expr:
    return Method(Imported("datetime", kind), "fromisoformat", (Literal(text),))


def _a(kind: type, value: Any, what: str) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{what} is needed, not {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    return repr(value)[:60]
