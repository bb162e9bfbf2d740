"""SQL aggregates, split into the partials that are kept of rows, their merging, and the results.

`sum(price) / count(*) FILTER (WHERE price > 0)` becomes three *partials* (columns that merge by a Polars aggregate) and
one expression over them. Equal partials are kept once. Nulls are ignored as in SQL, except by count(*) and collect; min
and max ignore NaN. Pure; used while a program is built and once per operator on its slot.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl
from polars.exceptions import PolarsError

from runtime.common.typeinfo import BasicType, BasicTypeInfo, RowTypeInfo, TypeInformation
from runtime.operators.columnar.dense_groups import DenseAggregates, dense_aggregates
from runtime.operators.columnar.expressions import (
    AGGREGATES,
    RESERVED,
    ColumnExpressionError,
    Named,
    Token,
    check_row_wise,
    column_of,
    columns_looked_at,
    evaluated,
    first_line,
    name_of,
    named_expressions,
    parse,
    quoted,
    tokens_of,
)
from runtime.operators.columnar.frames import FrameReader, fields_of, supported, type_of
from runtime.operators.columnar.key_joins import joined
from runtime.operators.columnar.partials import BY_ORDER, SEQUENCE, Merge, Partial
from runtime.operators.columnar.quantile_sketch import (
    DEFAULT_ACCURACY,
    MAX_ACCURACY,
    MIN_ACCURACY,
    bucket_of,
    quantile_of,
    sketch_of_rows,
    sketch_of_sketches,
)
from runtime.state.state_meta import StatePart

ROWS = "__rows"
"""Name of the partial that always exists: the number of rows."""
WINDOW_START = "window_start"
WINDOW_END = "window_end"
WINDOW_COLUMNS = (WINDOW_START, WINDOW_END)
KINDS = ("count", "sum", "min", "max", "avg", "first", "last", "count_distinct", "collect", "approx_quantile")
_ALIASES = {"mean": "avg", "first_value": "first", "last_value": "last", "array_agg": "collect"}
_BIG_INT = BasicTypeInfo(BasicType.BIG_INT)


@dataclass(frozen=True)
class AggregateSpec:
    """Describes an `aggregate_columns` call; travels to the slots.

    Args:
        input_type: of the records.
        keys: columns that the stream is keyed by.
        columns: name and expression of each column of the result after the keys.
        context_columns: further columns that the expressions may name: those of the window.
    """

    input_type: TypeInformation
    keys: tuple[str, ...]
    columns: tuple[Named, ...]
    context_columns: tuple[str, ...] = WINDOW_COLUMNS

    def plan(self) -> AggregatePlan:
        """Return the plan; the same object for equal specs."""
        return _plan_of(self)


def aggregate_spec(
    input_type: TypeInformation | None,
    keys: Sequence[str],
    texts: Iterable[str],
    named: Mapping[str, str],
    context_columns: tuple[str, ...] = WINDOW_COLUMNS,
) -> AggregateSpec:
    """Return the checked form of `aggregate_columns(*texts, **named)`.

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
            raise ColumnExpressionError(text, f"{name!r} is a key, which the result has already")
    spec = AggregateSpec(type_info, tuple(keys), tuple(columns), context_columns)
    spec.plan()
    return spec


class Whole(NamedTuple):
    """An aggregate whose partial is a collection of values."""

    partial: Partial
    quantile: float = 0.0
    """The requested quantile of a sketch."""


class AggregatePlan:
    """The Polars expressions of an AggregateSpec.

    Attributes:
        keys: columns of the key.
        input_columns: columns of the records that are needed.
        partials: what is kept.
        arrays: see WindowPlan.
        needs_order: whether rows need SEQUENCE.
        empty_rows, empty_partials: frames without rows, for their schemas.
        output_type: of the results.
        whole: columns of `results` that may be given in place of their partials.

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
        #: columns of the single aggregates, from which the result is computed
        self._aggregated: dict[str, pl.Expr] = {}
        #: those of them that depend on all values so far
        self.whole: dict[str, Whole] = {}
        outer = [Named(name, self._taken_apart(name, text)) for name, text in spec.columns]
        self.needs_order = any(partial.merge in BY_ORDER for partial in self.partials)
        self._computed = [parse(text).alias(name) for name, text in self._arguments.values() if name != name_of(text)]
        looked_at = columns_looked_at(parse(text) for _, text in self._arguments.values())
        self.input_columns = list(dict.fromkeys([*self.keys, *looked_at]))
        self._row_columns = list(dict.fromkeys([*self.keys, *(name for name, _ in self._arguments.values())]))
        for name in (*self.input_columns, *(name for name, _ in spec.columns)):
            if name.startswith(RESERVED) or (name in self.keys and name in spec.context_columns):
                raise ColumnExpressionError(name, "the name of this column is reserved")
        evaluated(empty, self._arguments.values())
        self.empty_rows = self.rows(empty.select(self.input_columns), 0)
        self._sketches = [partial for partial in self.partials if partial.merge is Merge.SKETCH]
        self._of_rows = self._checked_aggregates(self.empty_rows)
        self.arrays: DenseAggregates | None = None
        self.empty_partials = self.aggregated(self.empty_rows)
        self.arrays = dense_aggregates(self.keys, self.partials, self.empty_rows.schema, self.empty_partials.schema)
        self._of_partials = [expression for partial in self.partials for expression in partial.of_partials()]
        merged = self.merged(self.empty_partials)
        context = [pl.lit(0, pl.Int64).alias(name) for name in spec.context_columns]
        results = evaluated(self._with_aggregated(merged.with_columns(context)), outer)
        self._results = [
            *map(pl.col, self.keys),
            *(supported(parse(text), results.schema[name]).alias(name) for name, text in outer),
        ]
        sources = [(name, column) for name, text in outer if (column := column_of(text)) is not None]
        #: result → its aggregate or column, if every result is a single one: then one step computes all
        self._single = None
        if len(sources) == len(outer) and not self.whole:
            self._single = {
                name: supported(self._aggregated.get(source, pl.col(source)), results.schema[name]).alias(name)
                for name, source in sources
            }
            self._bounds = {name: source for name, source in sources if source in spec.context_columns}
        shaped = self._with_aggregated(merged.with_columns(context)).select(self._results)
        self.output_type: RowTypeInfo = type_of(shaped, self._known)
        self.output_schema = shaped.schema

    @property
    def merges_anywhere(self) -> bool:
        """Return whether partials may be computed before the exchange: order does not matter, and they are small."""
        return not self.needs_order

    @property
    def state_content(self) -> str:
        """Return which partials there are: a sum and a maximum of one type are told apart by that alone."""
        return ", ".join(partial.merge.value for partial in self.partials)

    @property
    def state_parts(self) -> tuple[StatePart, ...]:
        """Return the partials in their order, by which they are found in a state: each with what it is of."""
        texts = {name: text for name, text in self._arguments.values() if name.startswith(RESERVED)}
        return tuple(
            # buckets mean nothing without their accuracy
            StatePart(
                f"{partial.merge.value} within {partial.accuracy!r}" if partial.accuracy else partial.merge.value,
                texts.get(partial.argument, partial.argument),
            )
            for partial in self.partials
        )

    @property
    def partial_type(self) -> RowTypeInfo:
        """Return the type of partials with their keys, as they travel."""
        return type_of(self.empty_partials, {key: self._fields[key] for key in self.keys})

    def rows(self, frame: pl.DataFrame, sequence: int) -> pl.DataFrame:
        """Return the keys and arguments of rows.

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

    def aggregated(
        self, rows: pl.DataFrame, within: Sequence[str] = (), beside: Sequence[pl.Expr] = ()
    ) -> pl.DataFrame:
        """Return one partial for each key, and each value of `within`, of rows.

        Args:
            rows: as `rows` gives them.
            within: columns that further divide rows of the same key.
            beside: further aggregates to compute.
        """
        by = [*within, *self.keys]
        made = None if self.arrays is None or beside else self.arrays.of_rows(rows, within)
        if made is None:
            made = rows.group_by(by).agg(*self._of_rows, *beside)
        for partial in self._sketches:
            sketches = sketch_of_rows(rows, partial.argument, partial.accuracy, partial.name, by)
            made = joined(made, sketches, by, "left")
        return made

    def merged(
        self, partials: pl.DataFrame, within: Sequence[str] = (), beside: Sequence[pl.Expr] = ()
    ) -> pl.DataFrame:
        """Return partials merged from partials, likewise."""
        by = [*within, *self.keys]
        made = None if self.arrays is None or beside else self.arrays.of_partials(partials, within)
        if made is None:
            made = partials.group_by(by).agg(*self._of_partials, *beside)
        for partial in self._sketches:
            made = joined(made, sketch_of_sketches(partials, partial.name, by), by, "left")
        return made

    def results(self, merged: pl.DataFrame, **context: int) -> pl.DataFrame:
        """Return the results of merged partials; `context` has the values of missing context columns."""
        if self._single is not None:
            bounds = {n: pl.lit(context[c], pl.Int64).alias(n) for n, c in self._bounds.items() if c in context}
            return merged.select(*self.keys, *(self._single | bounds).values())
        if context:
            merged = merged.with_columns([pl.lit(value, pl.Int64).alias(name) for name, value in context.items()])
        return self._with_aggregated(merged).select(self._results)

    def _with_aggregated(self, merged: pl.DataFrame) -> pl.DataFrame:
        # a running aggregate supplies the aggregates that depend on all values itself
        missing = {name: expression for name, expression in self._aggregated.items() if name not in merged.columns}
        return merged.with_columns([expression.alias(name) for name, expression in missing.items()])

    def _checked_aggregates(self, rows: pl.DataFrame) -> list[pl.Expr]:
        """Return the aggregates of rows, tried one by one so that an error names its own."""
        texts = dict(self._arguments.values())
        made: list[pl.Expr] = []
        for partial in self.partials:
            try:
                expressions = partial.of_rows(rows.schema.get(partial.argument))
                rows.group_by(self.keys).agg(expressions)
                if partial.merge is Merge.SKETCH:
                    rows.select(bucket_of(pl.col(partial.argument), partial.accuracy))
            except (PolarsError, TypeError) as error:
                text = f"{partial.merge.value}({texts.get(partial.argument, '')})"
                raise ColumnExpressionError(text, first_line(error)) from None
            made += expressions
        return made

    # --- reading ------------------------------------------------------------------------------------------------------

    def _taken_apart(self, name: str, text: str) -> str:
        """Return the expression with a column in place of each aggregate."""
        tokens = tokens_of(text)
        pieces: list[str] = []
        position = index = 0
        calls = 0
        while index < len(tokens):
            token = tokens[index]
            if token.word == "over":
                raise ColumnExpressionError(text, "OVER is not supported in windows of streams")
            called = index + 1 < len(tokens) and tokens[index + 1].text == "("
            kind = _ALIASES.get(token.word, token.word)
            if not called or (kind not in KINDS and kind not in AGGREGATES):
                index += 1
                continue
            if kind not in KINDS:
                raise ColumnExpressionError(text, f"{token.text}() is not one of the aggregates {', '.join(KINDS)}")
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
        """Keep the partials of an aggregate; returns the column that it will be in."""
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
        quantile = accuracy = 0.0
        if kind == "approx_quantile":
            argument, quantile, accuracy = _quantile_arguments(text, argument)
        if condition:
            if kind == "collect":
                raise ColumnExpressionError(text, "collect() keeps nulls, and so cannot have a FILTER")
            argument = f"CASE WHEN {condition} THEN {argument} END"
        if argument:
            check_row_wise(argument)
        column = f"{RESERVED}r{len(self._aggregated)}"
        if kind == "approx_quantile":
            sketch = self._kept(Merge.SKETCH, argument, accuracy)
            self._aggregated[column] = quantile_of(sketch, quantile, accuracy)
            self.whole[column] = Whole(self._partial(sketch), quantile)
        else:
            self._aggregated[column] = self._result(kind, argument)
            if kind in ("count_distinct", "collect"):
                merge = Merge.DISTINCT if kind == "count_distinct" else Merge.LIST
                self.whole[column] = Whole(self._partial(self._kept(merge, argument)))
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

    def _kept(self, merge: Merge, argument: str, accuracy: float = 0.0) -> pl.Expr:
        if argument not in self._arguments:
            column = name_of(argument)
            name = column if column in self._fields else f"{RESERVED}a{len(self._arguments)}"
            self._arguments[argument] = Named(name, argument)
        name = self._arguments[argument].name
        for partial in self.partials:
            if (partial.merge, partial.argument, partial.accuracy) == (merge, name, accuracy):
                return pl.col(partial.name)
        # buckets mean nothing without their accuracy: the columns' names identify it in saved state
        suffix = f"_{accuracy!r}" if accuracy else ""
        partial = Partial(f"{RESERVED}p{len(self.partials)}{suffix}", merge, name, accuracy)
        self.partials.append(partial)
        return pl.col(partial.name)

    def _partial(self, column: pl.Expr) -> Partial:
        return next(partial for partial in self.partials if partial.name == column.meta.output_name())

    def _note_type(self, name: str, kind: str, argument: str) -> None:
        """Note that an aggregate that returns one of its arguments has that argument's declared type."""
        declared = self._fields.get(name_of(argument))
        if declared is not None and (
            kind in ("min", "max", "first", "last") or (kind == "sum" and declared == _BIG_INT)
        ):
            self._known[name] = declared


@functools.lru_cache(maxsize=64)
def _plan_of(spec: AggregateSpec) -> AggregatePlan:
    # some 20 ms each, and a program requests one several times while it is built; plans do not change
    return AggregatePlan(spec)


def _closing(text: str, tokens: Sequence[Token], opening: int) -> int:
    """Return the index of the parenthesis that closes the one at `opening`."""
    depth = 0
    for index in range(opening, len(tokens)):
        depth += (tokens[index].text == "(") - (tokens[index].text == ")")
        if depth == 0:
            return index
    raise ColumnExpressionError(text, "a parenthesis is not closed")


def _quantile_arguments(text: str, arguments: str) -> tuple[str, float, float]:
    """Return the value, the quantile and the accuracy of approx_quantile(value, quantile[, accuracy])."""
    tokens = tokens_of(arguments)
    depth, commas = 0, []
    for token in tokens:
        depth += (token.text in "([") - (token.text in ")]")
        if token.text == "," and depth == 0:
            commas.append(token.start)
    if len(commas) not in (1, 2):
        raise ColumnExpressionError(text, "write approx_quantile(value, quantile) or (value, quantile, relative error)")
    ends = [*commas[1:], len(arguments)]
    try:
        numbers = [float(arguments[start + 1 : end]) for start, end in zip(commas, ends, strict=True)]
    except ValueError:
        raise ColumnExpressionError(text, "the quantile and the relative error must be plain numbers") from None
    quantile, accuracy = numbers[0], numbers[1] if len(numbers) == 2 else DEFAULT_ACCURACY
    if not 0 <= quantile <= 1:
        raise ColumnExpressionError(text, f"a quantile must lie between 0 and 1, not at {quantile}")
    if not MIN_ACCURACY <= accuracy <= MAX_ACCURACY:
        raise ColumnExpressionError(text, f"the relative error must lie between {MIN_ACCURACY} and {MAX_ACCURACY}")
    return arguments[: commas[0]].strip(), quantile, accuracy
