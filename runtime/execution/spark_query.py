"""BatchQuery: the streaming query that drives a job in micro-batches, and what runs a pass as Spark actions.

Spark's triggers say when a batch begins; its write-ahead and commit logs number the batches. The query calls back for
each; the call lasts until the batch is complete, or is given up, and runs in its thread what has to be done for it, so
that stopping the query stops that, too. Passes that are no batch (savepoints) run in a thread of their own.
"""

from __future__ import annotations

import json
import logging
import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import SparkContext, cloudpickle
from pyspark.sql import DataFrame, SparkSession

from runtime.execution.passes import spark_source
from runtime.execution.passes.spark_source import FORMAT, BatchSource, say_more
from runtime.execution.session_health import JvmCall

logger = logging.getLogger(__name__)

SESSION_SETTINGS = {
    # the query has no rows whose partitions could be adapted
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # without checksum files beside the logs': a process of the shell's makes the mode of each, twice a batch
    "fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
}
_STARTS = 6
"""How often a query is started whose source's process was too slow to connect; Spark waits 10 s for it."""
_SLOW_START = "failed to connect back"

# the source's process then needs nothing of this package, whose import would take it a second
cloudpickle.register_pickle_by_value(spark_source)

Work = Callable[[SparkContext], Any]
"""Something to run as Spark actions."""


def new_session(context: SparkContext) -> SparkSession:
    """Return a session for one job's queries."""
    session = SparkSession(context).newSession()
    for key, value in SESSION_SETTINGS.items():
        session.conf.set(key, value)
    return session


class QueryBatch:
    """One call of the query.

    Args:
        number: Spark's.
        context: the query's.
        before_ms: where the time of the batch before it went, by Spark's names for its phases; {}: there was none.
    """

    def __init__(self, number: int, context: SparkContext, before_ms: Mapping[str, float]) -> None:
        self.number = number
        self.before_ms = before_ms
        self._context = context
        self._orders: queue.SimpleQueue[tuple[Future[Any], Work] | None] = queue.SimpleQueue()
        self._error: str | None = None

    def submit(self, work: Work) -> Future[Any]:
        """Have the query's thread run something."""
        future: Future[Any] = Future()
        self._orders.put((future, work))
        return future

    def finish(self, error: str | None = None) -> None:
        """End the call; with an error, the query ends as well."""
        self._error = error
        self._orders.put(None)

    def serve(self) -> None:
        """Run what is submitted until the call ends; in the query's thread."""
        while (order := self._orders.get()) is not None:
            run_order(*order, self._context)
        if self._error is not None:
            raise RuntimeError(self._error)


def run_order(future: Future[Any], work: Work, context: SparkContext) -> None:
    """Run something, and say what came of it."""
    try:
        result = work(context)
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """The parts of a query."""

    name: str
    trigger: str
    """As `execution.micro-batch.trigger`."""
    interval_ms: int
    location: Path
    """Of Spark's logs."""
    answer: Path
    """The file in which the source is told whether there is another batch."""


class BatchQuery:
    """The query of one attempt.

    Args:
        context: where it runs.
        facts: what it is made of.
        on_batch: takes each call of the query, in the query's thread; must return at once.
        on_end: called once, in a thread of the query's own, with the error or None; not after `stop`.
    """

    def __init__(
        self,
        context: SparkContext,
        facts: QueryFacts,
        on_batch: Callable[[QueryBatch], None],
        on_end: Callable[[str | None], None],
    ) -> None:
        self._context = context
        self._facts = facts
        self._on_batch = on_batch
        self._on_end = on_end
        self._lock = threading.Lock()
        self._query: Any = None
        self._is_stopped = False
        say_more(facts.answer, True)
        threading.Thread(target=self._run, name=f"query-{facts.name}", daemon=True).start()

    def say_more(self, has_more: bool) -> None:
        """Say whether there is another batch."""
        say_more(self._facts.answer, has_more)

    def stop(self) -> None:
        """Stop the query and what it runs; returns at once."""
        with self._lock:
            self._is_stopped = True
            query = self._query
        if query is not None:
            JvmCall(query.stop)

    def _run(self) -> None:
        error: str | None = None
        for _ in range(_STARTS):
            error = self._run_once()
            if error is None or _SLOW_START not in error or self._is_stopped:
                break
        if not self._is_stopped:
            self._on_end(error)

    def _run_once(self) -> str | None:
        try:
            query = self._start()
            with self._lock:
                self._query = query
                is_stopped = self._is_stopped
            if is_stopped:
                query.stop()
            query.awaitTermination()
        except Exception as error:
            # py4j's and Spark's own: all mean that there will be no more batches
            return str(error) or type(error).__name__
        return None

    def _start(self) -> Any:
        facts = self._facts
        session = new_session(self._context)
        session.dataSource.register(BatchSource)
        stream = session.readStream.format(FORMAT).option("answer", str(facts.answer)).load()
        writer = stream.writeStream.foreachBatch(self._call).queryName(facts.name)
        writer = writer.option("checkpointLocation", facts.location.as_uri())
        match facts.trigger:
            case "processing-time":
                writer = writer.trigger(processingTime=f"{facts.interval_ms} milliseconds")
            case "available-now":
                writer = writer.trigger(availableNow=True)
            case _:
                writer = writer.trigger(once=True)
        return writer.start()

    def _call(self, frame: DataFrame, number: int) -> None:
        batch = QueryBatch(number, self._context, self._ms_of(number - 1))
        self._on_batch(batch)
        batch.serve()

    def _ms_of(self, number: int) -> Mapping[str, float]:
        """Return where the time of a batch went; {} if it is not the query's last one."""
        query = self._query
        last = None if query is None else query._jsq.lastProgress()
        progress = {} if last is None else json.loads(last.json())
        return progress["durationMs"] if progress.get("batchId") == number else {}
