"""SQL aggregates, taken apart into what is kept of rows, how that is merged, and what comes out.

`sum(price) / count(*) FILTER (WHERE price > 0)` becomes three *partials* (columns that merge by a Polars aggregate) and
one expression over them. Equal partials are kept once. Nulls are left out as SQL leaves them out, but for count(*) and
collect; min and max leave out NaN. Pure; used while a program is built and once per operator on its slot.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl
from polars.exceptions import PolarsError

from runtime.common.typeinfo import BasicType, BasicTypeInfo, RowTypeInfo, TypeInformation
from runtime.operators.columnar.expressions import (
    AGGREGATES,
    RESERVED,
    ColumnExpressionError,
    Named,
    Token,
    check_row_wise,
    evaluated,
    first_line,
    name_of,
    named_expressions,
    parse,
    quoted,
    tokens_of,
)
from runtime.operators.columnar.frames import FrameReader, fields_of, supported, type_of

SEQUENCE = "__sequence"
"""Column of the rows' order of arrival; only there if an aggregate depends on it."""
ROWS = "__rows"
"""Partial that is always there: how many rows there were."""
WINDOW_START = "window_start"
WINDOW_END = "window_end"
WINDOW_COLUMNS = (WINDOW_START, WINDOW_END)
KINDS = ("count", "sum", "min", "max", "avg", "first", "last", "count_distinct", "collect")
_ALIASES = {"mean": "avg", "first_value": "first", "last_value": "last", "array_agg": "collect"}
_BIG_INT = BasicTypeInfo(BasicType.BIG_INT)


class Merge(enum.Enum):
    """How a partial is made, of rows and of other partials."""

    ROWS = "rows"
    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    FIRST = "first"
    LAST = "last"
    DISTINCT = "distinct"
    LIST = "list"


_BY_ORDER = frozenset({Merge.FIRST, Merge.LAST, Merge.LIST})


@dataclass(frozen=True)
class Partial:
    """A column that is kept for each key and pane.

    Args:
        name: of the column; first and last have `<name>_at` beside it, the row's place in the order of arrival.
        merge: how it is made.
        argument: column of the rows that it is made of; "" for the number of rows.
    """

    name: str
    merge: Merge
    argument: str

    def of_rows(self, dtype: pl.DataType | None) -> list[pl.Expr]:
        """Aggregates of rows whose argument has that dtype."""
        column = pl.col(self.argument) if self.argument else pl.len()
        match self.merge:
            case Merge.ROWS:
                made = [column.cast(pl.Int64)]
            case Merge.COUNT:
                made = [column.count().cast(pl.Int64)]
            case Merge.SUM:
                summed = _sum_dtype(dtype)
                made = [(column if summed == dtype else column.cast(summed)).sum()]
            case Merge.MIN:
                made = [column.min()]
            case Merge.MAX:
                made = [column.max()]
            case Merge.DISTINCT:
                made = [column.drop_nulls().unique()]
            case Merge.LIST:
                made = [pl.struct(pl.col(SEQUENCE).alias("at"), column.alias("value"))]
            case Merge.FIRST:
                return self._placed(column.drop_nulls().first(), pl.col(SEQUENCE).filter(column.is_not_null()).first())
            case Merge.LAST:
                return self._placed(column.drop_nulls().last(), pl.col(SEQUENCE).filter(column.is_not_null()).last())
        return [expression.alias(self.name) for expression in made]

    def of_partials(self) -> list[pl.Expr]:
        """Aggregates of partials."""
        column = pl.col(self.name)
        match self.merge:
            case Merge.ROWS | Merge.COUNT | Merge.SUM:
                return [column.sum()]
            case Merge.MIN:
                return [column.min()]
            case Merge.MAX:
                return [column.max()]
            case Merge.DISTINCT:
                return [column.explode().drop_nulls().unique()]
            case Merge.LIST:
                return [column.explode()]
        at = pl.col(f"{self.name}_at")
        place = at.min() if self.merge is Merge.FIRST else at.max()
        return self._placed(column.filter(at == place).first(), place)

    def _placed(self, value: pl.Expr, at: pl.Expr) -> list[pl.Expr]:
        return [value.alias(self.name), at.alias(f"{self.name}_at")]


@dataclass(frozen=True)
class AggregateSpec:
    """What `aggregate_columns` was asked for; travels to the slots.

    Args:
        input_type: of the records.
        keys: columns that the stream is keyed by.
        columns: what each column of the result is made of, behind the keys.
        context_columns: columns that the expressions may name beside the keys: those of the window.
    """

    input_type: TypeInformation
    keys: tuple[str, ...]
    columns: tuple[Named, ...]
    context_columns: tuple[str, ...] = WINDOW_COLUMNS


def aggregate_spec(
    input_type: TypeInformation | None,
    keys: Sequence[str],
    texts: Iterable[str],
    named: Mapping[str, str],
    context_columns: tuple[str, ...] = WINDOW_COLUMNS,
) -> AggregateSpec:
    """The checked form of `aggregate_columns(*texts, **named)`.

    Raises:
        ColumnExpressionError: an expression cannot be used.
        TypeError: the records have no columns, or a result no type.
    """
    type_info = FrameReader(input_type).type_info
    columns = named_expressions(texts, named)
    if not columns:
        raise ColumnExpressionError("", 'nothing is aggregated; give expressions such as "count(*) AS n"')
    for name, text in columns:
        if name in keys:
            raise ColumnExpressionError(text, f"{name!r} is a key, which the result has anyway")
    spec = AggregateSpec(type_info, tuple(keys), tuple(columns), context_columns)
    AggregatePlan(spec)
    return spec


class AggregatePlan:
    """The Polars expressions of an AggregateSpec.

    Attributes:
        keys: columns of the key.
        input_columns: columns of the records that are needed.
        partials: what is kept.
        needs_order: whether rows need SEQUENCE.
        empty_rows, empty_partials: frames without rows, for their schemas.
        of_rows, of_partials: aggregates for `group_by(keys)`.
        output_type: of the results.

    Raises:
        ColumnExpressionError, TypeError: see `aggregate_spec`.
    """

    def __init__(self, spec: AggregateSpec) -> None:
        self._fields = fields_of(spec.input_type)
        self.keys = list(spec.keys)
        empty = FrameReader(spec.input_type).empty
        self._arguments: dict[str, Named] = {}
        self.partials = [Partial(ROWS, Merge.ROWS, "")]
        self._known = {key: self._fields[key] for key in self.keys}
        #: columns of the single aggregates, which the result is made of
        self._aggregated: dict[str, pl.Expr] = {}
        outer = [Named(name, self._taken_apart(name, text)) for name, text in spec.columns]
        self.needs_order = any(partial.merge in _BY_ORDER for partial in self.partials)
        self._computed = [parse(text).alias(name) for name, text in self._arguments.values() if name != name_of(text)]
        roots = [root for _, text in self._arguments.values() for root in parse(text).meta.root_names()]
        self.input_columns = list(dict.fromkeys([*self.keys, *roots]))
        self._row_columns = list(dict.fromkeys([*self.keys, *(name for name, _ in self._arguments.values())]))
        for name in (*self.input_columns, *(name for name, _ in spec.columns)):
            if name.startswith(RESERVED) or (name in self.keys and name in spec.context_columns):
                raise ColumnExpressionError(name, "the name of this column is reserved")
        evaluated(empty, self._arguments.values())
        self.empty_rows = self.rows(empty.select(self.input_columns), 0)
        self.of_rows = self._checked_aggregates(self.empty_rows)
        self.empty_partials = self.empty_rows.group_by(self.keys).agg(self.of_rows)
        self.of_partials = [expression for partial in self.partials for expression in partial.of_partials()]
        merged = self.merged(self.empty_partials)
        context = [pl.lit(0, pl.Int64).alias(name) for name in spec.context_columns]
        results = evaluated(self._with_aggregated(merged.with_columns(context)), outer)
        self._results = [
            *map(pl.col, self.keys),
            *(supported(parse(text), results.schema[name]).alias(name) for name, text in outer),
        ]
        self._context = spec.context_columns
        shaped = self._with_aggregated(merged.with_columns(context)).select(self._results)
        self.output_type: RowTypeInfo = type_of(shaped, self._known)
        self.output_schema = shaped.schema

    @property
    def merges_anywhere(self) -> bool:
        """Whether partials may be made before the exchange: nothing depends on the order, and few bytes are kept."""
        return not self.needs_order

    @property
    def partial_type(self) -> RowTypeInfo:
        """Type of partials with their keys, as they travel."""
        return type_of(self.empty_partials, {key: self._fields[key] for key in self.keys})

    def rows(self, frame: pl.DataFrame, sequence: int) -> pl.DataFrame:
        """The keys and arguments of rows.

        Args:
            frame: has `input_columns`.
            sequence: how many rows came before.
        """
        if self._computed:
            frame = frame.with_columns(self._computed)
        frame = frame.select(self._row_columns)
        if self.needs_order:
            order = pl.int_range(sequence, sequence + pl.len(), dtype=pl.Int64).alias(SEQUENCE)
            frame = frame.with_columns(order)
        return frame

    def aggregated(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Partials of rows, one for each key, in no order."""
        return rows.group_by(self.keys).agg(self.of_rows)

    def merged(self, partials: pl.DataFrame) -> pl.DataFrame:
        """One partial for each key, in no order."""
        return partials.group_by(self.keys).agg(self.of_partials)

    def results(self, merged: pl.DataFrame, **context: int) -> pl.DataFrame:
        """What comes out for merged partials; `context` has the values of the context columns that are not there."""
        if context:
            merged = merged.with_columns([pl.lit(value, pl.Int64).alias(name) for name, value in context.items()])
        return self._with_aggregated(merged).select(self._results)

    def _with_aggregated(self, merged: pl.DataFrame) -> pl.DataFrame:
        return merged.with_columns([expression.alias(name) for name, expression in self._aggregated.items()])

    def _checked_aggregates(self, rows: pl.DataFrame) -> list[pl.Expr]:
        """The aggregates of rows, tried one by one so that an error names its own."""
        texts = dict(self._arguments.values())
        made: list[pl.Expr] = []
        for partial in self.partials:
            try:
                expressions = partial.of_rows(rows.schema.get(partial.argument))
                rows.group_by(self.keys).agg(expressions)
            except (PolarsError, TypeError) as error:
                text = f"{partial.merge.value}({texts.get(partial.argument, '')})"
                raise ColumnExpressionError(text, first_line(error)) from None
            made += expressions
        return made

    # --- reading ------------------------------------------------------------------------------------------------------

    def _taken_apart(self, name: str, text: str) -> str:
        """The expression with a column in place of each aggregate."""
        tokens = tokens_of(text)
        pieces: list[str] = []
        position = index = 0
        calls = 0
        while index < len(tokens):
            token = tokens[index]
            if token.word == "over":
                raise ColumnExpressionError(text, "OVER is not for windows of streams")
            called = index + 1 < len(tokens) and tokens[index + 1].text == "("
            kind = _ALIASES.get(token.word, token.word)
            if not called or (kind not in KINDS and kind not in AGGREGATES):
                index += 1
                continue
            if kind not in KINDS:
                raise ColumnExpressionError(text, f"{token.text}() is none of the aggregates {', '.join(KINDS)}")
            end = _closing(text, tokens, index + 1)
            argument = text[tokens[index + 1].start + 1 : tokens[end].start].strip()
            condition = ""
            index = end + 1
            if index + 2 < len(tokens) and tokens[index].word == "filter" and tokens[index + 2].word == "where":
                end = _closing(text, tokens, index + 1)
                condition = text[tokens[index + 2].start + len("where") : tokens[end].start].strip()
                index = end + 1
            pieces += [text[position : token.start], self._aggregate(text, kind, argument, condition)]
            position = tokens[end].start + 1
            calls += 1
            if calls == 1 and position >= len(text.rstrip()) and token.start == tokens[0].start and not condition:
                self._note_type(name, kind, argument)
        return "".join([*pieces, text[position:]])

    def _aggregate(self, text: str, kind: str, argument: str, condition: str) -> str:
        """Keep what an aggregate needs; returns the column that it will be in."""
        words = tokens_of(argument)
        if words and words[0].word == "distinct":
            if kind != "count":
                raise ColumnExpressionError(text, f"DISTINCT is for count() only, not for {kind}()")
            kind, argument = "count_distinct", argument[words[0].start + len("distinct") :].strip()
        if argument == "*":
            if kind != "count":
                raise ColumnExpressionError(text, f"{kind}(*): only count() counts rows")
            argument = "1" if condition else ""
        elif not argument:
            raise ColumnExpressionError(text, f"{kind}() needs an argument")
        if condition:
            if kind == "collect":
                raise ColumnExpressionError(text, "collect() keeps nulls, and so cannot have a FILTER")
            argument = f"CASE WHEN {condition} THEN {argument} END"
        if argument:
            check_row_wise(argument)
        column = f"{RESERVED}r{len(self._aggregated)}"
        self._aggregated[column] = self._result(kind, argument)
        return quoted(column)

    def _result(self, kind: str, argument: str) -> pl.Expr:
        match kind:
            case "count":
                return self._kept(Merge.COUNT, argument) if argument else pl.col(ROWS)
            case "sum":
                total = self._kept(Merge.SUM, argument)
                return pl.when(self._kept(Merge.COUNT, argument) > 0).then(total)
            case "avg":
                count = self._kept(Merge.COUNT, argument)
                return pl.when(count > 0).then(self._kept(Merge.SUM, argument).cast(pl.Float64) / count)
            case "count_distinct":
                return self._kept(Merge.DISTINCT, argument).list.len().cast(pl.Int64)
            case "collect":
                item = pl.element().struct
                in_order = pl.element().sort_by(item.field("at")).struct.field("value")
                return self._kept(Merge.LIST, argument).list.eval(in_order)
        return self._kept(Merge(kind), argument)

    def _kept(self, merge: Merge, argument: str) -> pl.Expr:
        if argument not in self._arguments:
            column = name_of(argument)
            name = column if column in self._fields else f"{RESERVED}a{len(self._arguments)}"
            self._arguments[argument] = Named(name, argument)
        name = self._arguments[argument].name
        for partial in self.partials:
            if (partial.merge, partial.argument) == (merge, name):
                return pl.col(partial.name)
        partial = Partial(f"{RESERVED}p{len(self.partials)}", merge, name)
        self.partials.append(partial)
        return pl.col(partial.name)

    def _note_type(self, name: str, kind: str, argument: str) -> None:
        """The result of an aggregate that gives one of its arguments has their declared type."""
        declared = self._fields.get(name_of(argument))
        if declared is not None and (
            kind in ("min", "max", "first", "last") or (kind == "sum" and declared == _BIG_INT)
        ):
            self._known[name] = declared


def _closing(text: str, tokens: Sequence[Token], opening: int) -> int:
    """Index of the parenthesis that closes the one at `opening`."""
    depth = 0
    for index in range(opening, len(tokens)):
        depth += (tokens[index].text == "(") - (tokens[index].text == ")")
        if depth == 0:
            return index
    raise ColumnExpressionError(text, "a parenthesis is not closed")


def _sum_dtype(dtype: pl.DataType | None) -> pl.DataType:
    assert dtype is not None
    if dtype.is_decimal() or dtype == pl.Int64 or dtype == pl.Float64:
        return dtype
    if dtype.is_integer():
        return pl.Int64()
    if dtype.is_float():
        return pl.Float64()
    raise TypeError(f"only numbers can be summed, not {dtype}")
