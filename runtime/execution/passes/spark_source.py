"""The source of the query that drives a job in micro-batches: one Python Data Source, whose offset counts the batches.

It has no rows: what a batch reads is decided where the job's coordinators are, when it has begun. Spark asks this
source, in a process of its own, only whether there is another batch; the driver leaves the answer in a file. Spark
waits 10 s for that process: nothing is imported here that takes long. Names of methods are Spark's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

FORMAT = "tidemark"


class BatchSource(DataSource):  # type: ignore[misc]
    """The source. Its only option, `answer`, is the path of the driver's file."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return "nothing int"

    def streamReader(self, schema: Any) -> BatchReader:  # noqa: N802
        return BatchReader(self.options)


class BatchReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Says whether there is another batch."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._answer = Path(options["answer"])

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"batch": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        return {"batch": start["batch"] + 1} if has_more(self._answer) else start

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Do nothing: the driver says when a batch has found nothing more to read."""

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return []

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        yield from ()


def has_more(answer: Path) -> bool:
    """Return whether there is another batch."""
    return bool(json.loads(answer.read_text())["has_more"])


def say_more(answer: Path, has_more: bool) -> None:
    """Say whether there is another batch."""
    made = answer.with_suffix(".new")
    made.write_text(json.dumps({"has_more": has_more}))
    made.replace(answer)
