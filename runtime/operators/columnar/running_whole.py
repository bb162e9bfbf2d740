"""Running values of aggregates that depend on all values of their key: count distinct, collect, quantiles.

Each keeps a list per key: the different values, all values in order, or a sketch. The list of every key in a batch is
read and written once; the result after each row is computed for all rows together, or, for quantiles, by moving a
pointer by about one bucket per row. Pure; used by the task's thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
import pyarrow as pa

from runtime.common.typeinfo import ListTypeInfo, RowTypeInfo, TypeInformation
from runtime.operators.columnar.aggregates import AggregatePlan, Whole
from runtime.operators.columnar.frames import arrow_of, fields_of
from runtime.operators.columnar.keyed_rows import in_ranges
from runtime.operators.columnar.partials import Merge
from runtime.operators.columnar.quantile_sketch import BUCKET, COUNT, bucket_of, quantile_of, value_of

KEY = "__key"
"""Column with the number of a row's key: its place in the frame of the keys' states."""
_ROW = "__row"


class RunningWhole(ABC):
    """The aggregates that share one partial.

    Args:
        name: of the partial.
        argument: column of the rows that it is computed from.
    """

    def __init__(self, name: str, argument: str) -> None:
        self.name = name
        self.argument = argument

    @abstractmethod
    def state_type(self, partial: TypeInformation) -> TypeInformation:
        """Return the type of a key's state, given that of the partial."""

    @abstractmethod
    def of_states(self, states: pl.Series) -> list[pl.Series]:
        """Return the aggregates' values for states; null stands for none."""

    @abstractmethod
    def follow(self, rows: pl.DataFrame, states: pl.Series) -> tuple[list[pl.Series], pl.Series]:
        """Return the aggregates' values after each row, and the states after the last row.

        Args:
            rows: have KEY and the argument.
            states: of each key, null for none.
        """


class RunningDistinct(RunningWhole):
    """Counts the different values."""

    def __init__(self, name: str, argument: str, result: str) -> None:
        super().__init__(name, argument)
        self._result = result

    def state_type(self, partial: TypeInformation) -> TypeInformation:
        return partial

    def of_states(self, states: pl.Series) -> list[pl.Series]:
        return [states.list.len().fill_null(0).cast(pl.Int64).alias(self._result)]

    def follow(self, rows: pl.DataFrame, states: pl.Series) -> tuple[list[pl.Series], pl.Series]:
        known = pl.DataFrame({KEY: _numbers(states), "value": states}).explode("value").drop_nulls("value")
        values = rows.select(pl.col(KEY).cast(pl.Int64), pl.col(self.argument).alias("value")).with_row_index(_ROW)
        first = values.drop_nulls("value").unique([KEY, "value"], keep="first")
        first = first.join(known, on=[KEY, "value"], how="anti").sort(_ROW)
        is_new = np.zeros(rows.height, dtype=np.int64)
        is_new[first.get_column(_ROW).to_numpy()] = 1
        before = self.of_states(states)[0].gather(rows.get_column(KEY))
        counted = pl.DataFrame({KEY: rows.get_column(KEY), "n": is_new, "before": before})
        counts = counted.select((pl.col("before") + pl.col("n").cum_sum().over(KEY)).alias(self._result)).to_series()
        return [counts], _listed(pl.concat([known, first.select(KEY, "value")]), states)


class RunningList(RunningWhole):
    """Lists all values in the order of arrival."""

    def __init__(self, name: str, argument: str, result: str) -> None:
        super().__init__(name, argument)
        self._result = result

    def state_type(self, partial: TypeInformation) -> TypeInformation:
        assert isinstance(partial, ListTypeInfo) and isinstance(partial.element_type, RowTypeInfo)
        return ListTypeInfo(fields_of(partial.element_type)["value"])

    def of_states(self, states: pl.Series) -> list[pl.Series]:
        return [states.alias(self._result)]

    def follow(self, rows: pl.DataFrame, states: pl.Series) -> tuple[list[pl.Series], pl.Series]:
        numbers = rows.get_column(KEY).to_numpy().astype(np.int64)
        known = pl.DataFrame({KEY: _numbers(states), "value": states, "n": states.list.len().fill_null(0)})
        lengths = known.get_column("n").to_numpy().astype(np.int64)
        known = known.filter(pl.col("n") > 0).drop("n").explode("value")
        added = pl.DataFrame({KEY: numbers, "value": rows.get_column(self.argument)})
        together = pl.concat([known, added]).sort(KEY, maintain_order=True)
        # the list of a row begins where its key's values do, and ends after the row's own value
        counts = np.bincount(together.get_column(KEY).to_numpy(), minlength=len(states))
        begins = np.cumsum(counts) - counts
        place = pl.DataFrame({KEY: numbers}).select(pl.int_range(1, pl.len() + 1).over(KEY)).to_series().to_numpy()
        sizes = lengths[numbers] + place
        starts = begins[numbers]
        values = together.get_column("value").gather(in_ranges(starts, starts + sizes))
        items = arrow_of(values.to_frame()).column(0)
        offsets = pa.array(np.concatenate(([0], np.cumsum(sizes))), pa.int64())
        lists = pl.Series(self._result, pa.LargeListArray.from_arrays(offsets, items), pl.List(values.dtype))
        return [lists], _listed(together, states)


class RunningQuantiles(RunningWhole):
    """Computes quantiles of a sketch.

    Args:
        accuracy: of the sketch.
        quantiles: by the name of their results.
    """

    def __init__(self, name: str, argument: str, accuracy: float, quantiles: Mapping[str, float]) -> None:
        super().__init__(name, argument)
        self._accuracy = accuracy
        self._quantiles = dict(quantiles)

    def state_type(self, partial: TypeInformation) -> TypeInformation:
        return partial

    def of_states(self, states: pl.Series) -> list[pl.Series]:
        frame = states.to_frame("sketch")
        found = [
            quantile_of(pl.col("sketch"), quantile, self._accuracy).alias(result)
            for result, quantile in self._quantiles.items()
        ]
        return frame.select(found).get_columns()

    def follow(self, rows: pl.DataFrame, states: pl.Series) -> tuple[list[pl.Series], pl.Series]:
        buckets = rows.select(bucket_of(pl.col(self.argument), self._accuracy)).to_series().to_list()
        quantiles = list(self._quantiles.values())
        sketches = [MovingQuantiles(items or (), quantiles) for items in states.to_list()]
        found: list[list[int | None]] = []
        for number, bucket in zip(rows.get_column(KEY).to_list(), buckets, strict=True):
            sketch = sketches[number]
            if bucket is not None:
                sketch.add(bucket)
            found.append(list(sketch.current))
        columns = zip(*found, strict=True) if found else [()] * len(quantiles)
        values = [
            pl.Series(result, column, pl.Int32)
            .to_frame()
            .select(value_of(pl.col(result), self._accuracy).alias(result))
            .to_series()
            for result, column in zip(self._quantiles, columns, strict=True)
        ]
        items = [[{BUCKET: b, COUNT: n} for b, n in sorted(sketch.counts.items())] for sketch in sketches]
        return values, pl.Series(states.name, items, states.dtype)


class MovingQuantiles:
    """Quantiles of a growing collection of buckets, each with a pointer that moves as the collection grows.

    Attributes:
        counts: bucket → how many.
        current: the bucket of each quantile; None while the collection is empty.
    """

    __slots__ = ("_below", "_num_values", "_order", "_quantiles", "counts", "current")

    def __init__(self, items: Sequence[Mapping[str, int]], quantiles: Sequence[float]) -> None:
        self.counts: dict[int, int] = {item[BUCKET]: item[COUNT] for item in items}
        self._order = sorted(self.counts)
        self._num_values = sum(self.counts.values())
        self._quantiles = quantiles
        self.current: list[int | None] = [self._order[0] if self._order else None] * len(quantiles)
        #: for each quantile, how many values are in lower buckets
        self._below = [0] * len(quantiles)
        if self._order:
            self._move()

    def add(self, bucket: int) -> None:
        """Add one value."""
        if bucket in self.counts:
            self.counts[bucket] += 1
        else:
            self.counts[bucket] = 1
            insort(self._order, bucket)
        self._num_values += 1
        for index, current in enumerate(self.current):
            if current is None:
                self.current[index] = bucket
            elif bucket < current:
                self._below[index] += 1
        self._move()

    def _move(self) -> None:
        order, counts = self._order, self.counts
        for index, quantile in enumerate(self._quantiles):
            wanted = int(quantile * (self._num_values - 1))
            current = self.current[index]
            assert current is not None
            below = self._below[index]
            if below <= wanted < below + counts[current]:
                continue
            place = bisect_left(order, current)
            while wanted < below:
                place -= 1
                below -= counts[order[place]]
            while wanted >= below + counts[order[place]]:
                below += counts[order[place]]
                place += 1
            self.current[index], self._below[index] = order[place], below


def running_wholes(plan: AggregatePlan) -> list[RunningWhole]:
    """Return the running values for the aggregates of a plan that depend on all values."""
    by_partial: dict[str, dict[str, Whole]] = {}
    for result, whole in plan.whole.items():
        by_partial.setdefault(whole.partial.name, {})[result] = whole
    made: list[RunningWhole] = []
    for name, results in by_partial.items():
        partial = next(iter(results.values())).partial
        if partial.merge is Merge.SKETCH:
            quantiles = {result: whole.quantile for result, whole in results.items()}
            made.append(RunningQuantiles(name, partial.argument, partial.accuracy, quantiles))
        else:
            kind = RunningDistinct if partial.merge is Merge.DISTINCT else RunningList
            made += [kind(name, partial.argument, result) for result in results]
    return made


def _numbers(states: pl.Series) -> pl.Series:
    return pl.Series(np.arange(len(states), dtype=np.int64))


def _listed(values: pl.DataFrame, states: pl.Series) -> pl.Series:
    """Return the values of each key as a list, in their order."""
    lists = values.group_by(KEY, maintain_order=True).agg(pl.col("value"))
    numbered = pl.DataFrame({KEY: _numbers(states)})
    return numbered.join(lists, on=KEY, how="left", maintain_order="left").get_column("value").alias(states.name)
