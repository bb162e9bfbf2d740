"""Functions of SQL expressions that `polars.sql_expr` lacks: calls are taken out of the text and put in as Polars.

A call becomes the name of a column that does not exist, Polars parses the rest, and the expression's tree gets the
function in place of that name. Pure.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from polars.exceptions import PolarsError

#: units of date_trunc → Polars' words
_UNITS = {
    "microsecond": "1us",
    "millisecond": "1ms",
    "second": "1s",
    "minute": "1m",
    "hour": "1h",
    "day": "1d",
    "week": "1w",
    "month": "1mo",
    "quarter": "1q",
    "year": "1y",
}


class CallError(ValueError):
    """A call cannot be used; the message says why, without the text."""


@dataclass(frozen=True)
class Argument:
    """An argument of a call.

    Args:
        value: as Polars has it.
        literal: the text between its quotes, if it is nothing else.
    """

    value: pl.Expr
    literal: str | None


@dataclass(frozen=True)
class SqlFunction:
    """A function.

    Args:
        counts: numbers of arguments that it takes.
        build: makes it of its arguments; may raise CallError.
    """

    counts: tuple[int, ...]
    build: Callable[[Sequence[Argument]], pl.Expr]

    def call(self, name: str, arguments: Sequence[Argument]) -> pl.Expr:
        """Return the value of a call.

        Raises:
            CallError: it has another number of arguments, or one of them cannot be used.
        """
        if len(arguments) not in self.counts:
            counts = " or ".join(map(str, self.counts))
            raise CallError(f"{name}() takes {counts} arguments, not {len(arguments)}")
        return self.build(arguments)


def _date_trunc(arguments: Sequence[Argument]) -> pl.Expr:
    unit = _literal(arguments[0], "date_trunc() needs its unit").lower()
    if unit not in _UNITS:
        raise CallError(f"date_trunc() knows the units {', '.join(_UNITS)}, not {unit!r}")
    return arguments[1].value.dt.truncate(_UNITS[unit])


def _json_value(arguments: Sequence[Argument]) -> pl.Expr:
    path = _literal(arguments[1], "json_value() needs its path")
    if not path.startswith("$"):
        raise CallError(f"a path of json_value() begins with $, as '$.items[0].price', unlike {path!r}")
    try:
        # else the job would fail on its first record
        pl.select(pl.lit("{}").str.json_path_match(path))
    except PolarsError:
        raise CallError(f"{path!r} is not a path of json_value(), such as '$.items[0].price'") from None
    return arguments[0].value.str.json_path_match(path)


def _to_timestamp(arguments: Sequence[Argument]) -> pl.Expr:
    text = arguments[0].value
    if len(arguments) == 2:
        pattern = _literal(arguments[1], "to_timestamp() needs its format")
    else:
        pattern = "%Y-%m-%d %H:%M:%S%.f"
        text = text.str.replace("T", " ", literal=True).str.strip_suffix("Z")
    return text.str.to_datetime(pattern, time_unit="us", strict=False, ambiguous="earliest")


def _to_timestamp_ms(arguments: Sequence[Argument]) -> pl.Expr:
    return arguments[0].value.cast(pl.Int64).cast(pl.Datetime("ms")).cast(pl.Datetime("us"))


def _to_epoch_ms(arguments: Sequence[Argument]) -> pl.Expr:
    return arguments[0].value.dt.epoch("ms")


FUNCTIONS = {
    "date_trunc": SqlFunction((2,), _date_trunc),
    "json_value": SqlFunction((2,), _json_value),
    "to_timestamp": SqlFunction((1, 2), _to_timestamp),
    "to_timestamp_ms": SqlFunction((1,), _to_timestamp_ms),
    "to_epoch_ms": SqlFunction((1,), _to_epoch_ms),
}
"""By name, in lower case; `expression_functions.json` describes them."""


def _literal(argument: Argument, what: str) -> str:
    if argument.literal is None:
        raise CallError(f"{what} as a text in quotes")
    return argument.literal


def substituted(expression: pl.Expr, values: dict[str, pl.Expr]) -> pl.Expr:
    """Return an expression with others in place of the columns that it names."""
    trees = {name: _tree(value) for name, value in values.items()}

    def replaced(node: Any) -> Any:
        if isinstance(node, dict):
            if len(node) == 1 and node.get("Column") in trees:
                return trees[node["Column"]]
            return {key: replaced(value) for key, value in node.items()}
        return [replaced(item) for item in node] if isinstance(node, list) else node

    text = json.dumps(replaced(_tree(expression)))
    return pl.Expr.deserialize(io.StringIO(text), format="json")


def _tree(expression: pl.Expr) -> Any:
    return json.loads(expression.meta.serialize(format="json"))
