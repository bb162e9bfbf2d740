"""SQL expressions over the columns of one row: parsed, checked and typed while the program is built.

The text is in the dialect of `polars.sql_expr`: arithmetic, CASE, CAST, LIKE, functions of strings, numbers, lists and
times, and those of `sql_functions`; `expression_functions.json` lists them with examples. Expressions that read other
rows (aggregates, OVER) are refused, because their result would depend on where batches begin and end; so are those that
read the current time. Pure; an expression travels as text and is parsed again in the slot.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import polars as pl
from polars.exceptions import PolarsError

from runtime.common.typeinfo import RowTypeInfo, TypeInformation
from runtime.operators.columnar.frames import FrameReader, column_type, fields_of, supported, supported_dtype
from runtime.operators.columnar.sql_functions import FUNCTIONS, Argument, CallError, substituted

RESERVED = "__"
"""Prefix of the operators' own columns."""
_TOKEN = re.compile(r"\s+|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|[A-Za-z_]\w*|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|.", re.DOTALL)
#: functions that `polars.sql_expr` computes over several rows
AGGREGATES = frozenset(
    {"any_value", "approx_count_distinct", "approx_quantile", "array_agg", "avg", "bool_and", "bool_or", "collect"}
    | {"corr", "count", "count_distinct", "covar", "covar_pop", "covar_samp", "cume_dist", "dense_rank", "every"}
    | {"first", "first_value", "lag", "last", "last_value", "lead", "listagg", "max", "mean", "median", "min", "mode"}
    | {"nth_value", "ntile", "percent_rank", "quantile", "quantile_cont", "quantile_disc", "rank", "row_number"}
    | {"stddev", "stddev_pop", "stddev_samp", "stdev", "stdev_pop", "stdev_samp", "string_agg", "sum", "unnest"}
    | {"var", "var_pop", "var_samp", "variance"}
)
_NOW = frozenset({"now", "current_date", "current_time", "current_timestamp", "localtime", "localtimestamp", "random"})
_LITERALS = frozenset(("true", "false", "null"))
_KEYWORDS_REFUSED = frozenset(("over", "select"))


class ColumnExpressionError(ValueError):
    """An SQL expression cannot be used.

    Attributes:
        expression: its text.
        reason: why.
    """

    def __init__(self, expression: str, reason: str) -> None:
        super().__init__(f"{expression!r}: {reason}")
        self.expression = expression
        self.reason = reason

    def __reduce__(self) -> tuple[type[ColumnExpressionError], tuple[str, str]]:
        return type(self), (self.expression, self.reason)


class Token(NamedTuple):
    """A piece of SQL, and its position in the text."""

    text: str
    start: int

    @property
    def word(self) -> str:
        """Return the word in lower case, if it is a word that is not quoted; else ""."""
        return self.text.lower() if self.text[0].isalpha() or self.text[0] == "_" else ""


class Named(NamedTuple):
    """An expression and the name of its column."""

    name: str
    text: str


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of an SQL expression."""
    return [Token(found.group(), found.start()) for found in _TOKEN.finditer(text) if not found.group().isspace()]


def name_of(identifier: str) -> str:
    """Return the name that a possibly quoted identifier stands for."""
    return identifier[1:-1].replace('""', '"') if identifier[:1] == '"' else identifier


@lru_cache(maxsize=8_192)
def column_of(text: str) -> str | None:
    """Return the column that an expression names, if it consists of nothing else."""
    tokens = tokens_of(text)
    if len(tokens) != 1 or tokens[0].word in _LITERALS or not (tokens[0].word or tokens[0].text[0] == '"'):
        return None
    return name_of(tokens[0].text)


def quoted(name: str) -> str:
    """Return an identifier that names the column, whatever its characters."""
    return '"' + name.replace('"', '""') + '"'


def named_expressions(texts: Iterable[str], named: Mapping[str, str]) -> list[Named]:
    """Return expressions with their names: from `name=…`, from `… AS name`, or a column's own.

    Raises:
        ColumnExpressionError: one has no name, or a reserved one, or two have the same.
    """
    found = [_named(text) for text in texts] + [Named(name, text) for name, text in named.items()]
    seen: set[str] = set()
    for name, text in found:
        if not isinstance(text, str):
            raise ColumnExpressionError(repr(text), "an expression must be SQL text")
        if name.startswith(RESERVED):
            raise ColumnExpressionError(text, f"the name {name!r} is reserved: it begins with two underscores")
        if name in seen:
            raise ColumnExpressionError(text, f"two columns are named {name!r}")
        seen.add(name)
    return found


def _named(text: str) -> Named:
    if not isinstance(text, str):
        raise ColumnExpressionError(repr(text), "an expression must be SQL text")
    tokens = tokens_of(text)
    if len(tokens) > 2 and tokens[-2].word == "as" and (tokens[-1].word or tokens[-1].text[0] == '"'):
        return Named(name_of(tokens[-1].text), text[: tokens[-2].start].strip())
    column = column_of(text)
    if column is not None:
        return Named(column, text)
    raise ColumnExpressionError(text, 'it has no name: write `… AS name`, or name="…"')


@lru_cache(maxsize=8_192)
def check_row_wise(text: str) -> None:
    """Refuse an expression whose value depends on more than its row.

    Raises:
        ColumnExpressionError: it has an aggregate, a window, a query, or reads the current time.
    """
    tokens = tokens_of(text)
    if not tokens:
        raise ColumnExpressionError(text, "it is empty")
    for token, after in zip(tokens, [*tokens[1:], Token(" ", len(text))], strict=True):
        called = after.text == "("
        if token.word in _KEYWORDS_REFUSED or (called and token.word in AGGREGATES):
            raise ColumnExpressionError(
                text, f"{token.text} looks at more than one row; use key_by_columns() and aggregate_columns()"
            )
        if token.word in _NOW and (called or token.word.startswith(("current", "local"))):
            raise ColumnExpressionError(text, f"{token.text} is not deterministic")


@lru_cache(maxsize=8_192)
def parse(text: str) -> pl.Expr:
    """Return the Polars expression of an SQL text.

    Raises:
        ColumnExpressionError: Polars does not know such an SQL expression.
    """
    column = column_of(text)
    if column is not None:
        # Polars would refuse a name that is a keyword of SQL, such as top or end
        return pl.col(column)
    try:
        rest, calls = _without_calls(text)
        if calls and column_of(rest) in calls:
            return next(iter(calls.values()))
        expression = pl.sql_expr(rest)
    except (PolarsError, CallError) as error:
        raise ColumnExpressionError(text, first_line(error)) from None
    return substituted(expression, calls) if calls else expression


def _without_calls(text: str) -> tuple[str, dict[str, pl.Expr]]:
    """Return the text with a column's name in place of each call that Polars does not know, and their values.

    Raises:
        CallError: a call cannot be used.
        ColumnExpressionError: an argument of one cannot.
    """
    tokens = tokens_of(text)
    calls: dict[str, pl.Expr] = {}
    pieces, done, index = [], 0, 0
    while index < len(tokens):
        token = tokens[index]
        function = FUNCTIONS.get(token.word)
        is_call = index + 1 < len(tokens) and tokens[index + 1].text == "("
        if function is None or not is_call or (index and tokens[index - 1].text == "."):
            index += 1
            continue
        texts, end = _arguments(text, tokens, index + 1)
        name = f"{RESERVED}call_{len(calls)}"
        calls[name] = function.call(token.word, [Argument(parse(part), _literal_of(part)) for part in texts])
        pieces += [text[done : token.start], quoted(name)]
        done, index = tokens[end].start + 1, end + 1
    return "".join([*pieces, text[done:]]), calls


def _arguments(text: str, tokens: list[Token], opening: int) -> tuple[list[str], int]:
    """Return the texts of a call's arguments and the index of its closing parenthesis."""
    depth, start, texts = 0, tokens[opening].start + 1, []
    for index in range(opening, len(tokens)):
        token = tokens[index]
        depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
        if depth == 0 or (depth == 1 and token.text == ","):
            texts.append(text[start : token.start].strip())
            start = token.start + 1
        if depth == 0:
            return texts if texts != [""] else [], index
    raise CallError(f"the parenthesis after {tokens[opening - 1].text} is not closed")


def _literal_of(text: str) -> str | None:
    tokens = tokens_of(text)
    if len(tokens) != 1 or tokens[0].text[0] != "'":
        return None
    return tokens[0].text[1:-1].replace("''", "'")


def columns_looked_at(expressions: Iterable[pl.Expr]) -> list[str]:
    """Return the columns that expressions name, each once, in the order of first mention."""
    return list(dict.fromkeys(name for expression in expressions for name in expression.meta.root_names()))


def evaluated(frame: pl.DataFrame, expressions: Iterable[Named]) -> pl.DataFrame:
    """Return the columns that the expressions produce from an empty frame; for the schema.

    Raises:
        ColumnExpressionError: a column does not exist, or types do not fit.
    """
    return pl.DataFrame(schema=dtypes_of(frame.schema, expressions))


def dtypes_of(schema: Mapping[str, pl.DataType], expressions: Iterable[Named]) -> dict[str, pl.DataType]:
    """Return the dtypes of the columns that the expressions produce from columns of a schema, by name.

    Raises:
        ColumnExpressionError: see `evaluated`.
    """
    found = {}
    for name, text in expressions:
        column = column_of(text)
        known = None if column is None else schema.get(column)
        found[name] = _dtype_of(schema, text) if known is None else known
    return found


def _dtype_of(schema: Mapping[str, pl.DataType], text: str) -> pl.DataType:
    expression = parse(text)
    names = expression.meta.root_names()
    try:
        if expression.meta.has_multiple_outputs() or not all(name in schema for name in names):
            return _dtype_anew(schema, expression)
        return _dtype(text, tuple((name, schema[name]) for name in dict.fromkeys(names)))
    except PolarsError as error:
        raise ColumnExpressionError(text, first_line(error)) from None


@lru_cache(maxsize=8_192)
def _dtype(text: str, columns: tuple[tuple[str, pl.DataType], ...]) -> pl.DataType:
    """Return the dtype of an expression over the columns that it looks at, which may be those of many streams."""
    return _dtype_anew(dict(columns), parse(text))


def _dtype_anew(schema: Mapping[str, pl.DataType], expression: pl.Expr) -> pl.DataType:
    name = f"{RESERVED}made"
    return pl.DataFrame(schema=schema).with_columns(expression.alias(name)).get_column(name).dtype


def first_line(error: Exception) -> str:
    """Return the first line of a Polars error, without its advice on query plans."""
    return next(iter(str(error).splitlines()), type(error).__name__)


@dataclass(frozen=True)
class Projection:
    """Columns computed from columns, row by row.

    Args:
        input_type: of the records.
        columns: name and expression of each column of the result.

    Raises:
        ColumnExpressionError: an expression cannot be used.
        TypeError: the records have no columns, or a result no type.
    """

    input_type: TypeInformation
    columns: tuple[Named, ...]

    @cached_property
    def output_type(self) -> RowTypeInfo:
        """The type of the result; a column that is only passed on keeps its declared type."""
        declared, schema, passed_on = fields_of(self.input_type), FrameReader(self.input_type).schema, self.passed_on
        types = []
        for name, text in self.columns:
            known = declared.get(passed_on[name]) if name in passed_on else None
            types.append(column_type(supported_dtype(_dtype_of(schema, text)), name) if known is None else known)
        return RowTypeInfo(types, [name for name, _ in self.columns])

    @cached_property
    def passed_on(self) -> Mapping[str, str]:
        """The columns that are passed on unchanged: name → column of the input."""
        named = ((name, column_of(text)) for name, text in self.columns)
        return {name: column for name, column in named if column is not None}

    def expressions(self) -> list[pl.Expr]:
        """Return the Polars expressions, named and cast to supported types."""
        made = dtypes_of(FrameReader(self.input_type).schema, self.columns)
        return [supported(parse(text), made[name]).alias(name) for name, text in self.columns]


def selection(input_type: TypeInformation | None, texts: Iterable[str], named: Mapping[str, str]) -> Projection:
    """Return the projection of `select(*texts, **named)`; "*" stands for all columns.

    Raises:
        ColumnExpressionError: see `Projection`; or nothing is selected.
        TypeError: see `Projection`.
    """
    reader = FrameReader(input_type)
    expanded: list[str] = []
    for text in texts:
        expanded += [quoted(name) for name in reader.schema] if text == "*" else [text]
    columns = named_expressions(expanded, named)
    if not columns:
        raise ColumnExpressionError("", "nothing is selected")
    return _checked(reader, columns, columns)


def extension(input_type: TypeInformation | None, texts: Iterable[str], named: Mapping[str, str]) -> Projection:
    """Return the projection of `with_columns(*texts, **named)`: the existing columns, some replaced, and new ones.

    Raises:
        ColumnExpressionError: see `Projection`.
        TypeError: see `Projection`.
    """
    reader = FrameReader(input_type)
    columns = {name: _unchanged(name) for name in reader.schema}
    computed = named_expressions(texts, named)
    columns.update({column.name: column for column in computed})
    return _checked(reader, list(columns.values()), computed)


@lru_cache(maxsize=8_192)
def _unchanged(name: str) -> Named:
    return Named(name, quoted(name))


def _checked(reader: FrameReader, columns: list[Named], computed: list[Named]) -> Projection:
    for _, text in computed:
        check_row_wise(text)
    projection = Projection(reader.type_info, tuple(columns))
    _ = projection.output_type
    return projection


def checked_condition(input_type: TypeInformation | None, text: str) -> str:
    """Return `text`, if it is a condition on records of the type.

    Raises:
        ColumnExpressionError: it is not.
        TypeError: such records have no columns.
    """
    reader = FrameReader(input_type)
    if not isinstance(text, str):
        raise ColumnExpressionError(repr(text), "an expression must be SQL text")
    check_row_wise(text)
    column = evaluated(reader.empty, [Named("condition", text)]).get_column("condition")
    if column.dtype != pl.Boolean:
        raise ColumnExpressionError(text, f"a condition must be true or false, not {column.dtype}")
    return text
