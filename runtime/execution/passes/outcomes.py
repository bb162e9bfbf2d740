"""Outcomes of tasks that Spark tells the driver as soon as their partition is over, long before all of a batch are.

An accumulator brings them. In the driver it keeps nothing: each addition is handed on at once, in the thread of
PySpark's server of accumulators, for which Spark's scheduler waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark import Accumulator, SparkContext
from pyspark.accumulators import _accumulatorRegistry

Outcomes = tuple[bytes, ...]
"""Encoded reports, one text of them for each partition."""


class _Kept:
    """Keeps what is added; in a worker. Implements AccumulatorParam."""

    def zero(self, value: Outcomes) -> Outcomes:
        return ()

    def addInPlace(self, value1: Outcomes, value2: Outcomes) -> Outcomes:  # noqa: N802 (PySpark's name)
        return value1 + value2


class _HandedOn(_Kept):
    """Hands on what workers have added; in the driver.

    Args:
        take: is given the reports of one partition.
    """

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take

    def __reduce__(self) -> tuple[type[_Kept], tuple[()]]:
        return _Kept, ()

    def addInPlace(self, value1: Outcomes, value2: Outcomes) -> Outcomes:  # noqa: N802 (PySpark's name)
        for reports in value2:
            self._take(reports)
        return ()


@contextmanager
def handed_on(context: SparkContext, take: Callable[[bytes], None]) -> Iterator[Accumulator[Outcomes]]:
    """Provide an accumulator for the actions of the block.

    Args:
        context: where they run.
        take: is given the reports of each partition that is over, again if it is run again; must return at once, and
            not fail. In a thread of PySpark's.
    """
    accumulator = context.accumulator((), _HandedOn(take))
    try:
        yield accumulator
    finally:
        # PySpark keeps them for the life of the process
        _accumulatorRegistry.pop(accumulator.aid, None)
