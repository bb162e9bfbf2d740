"""SparkPasses: the passes of one attempt on Spark, and the query that drives those that are micro-batches.

The query's (`spark_query`) batches are checkpoints of the JobMaster: the query calls, the host asks the JobMaster for a
checkpoint, and the pass that ends with it reads. A checkpoint or savepoint that was asked for by somebody else reads
nothing, and is no batch of the query. A batch that is the whole job has no query.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from pyspark import SparkContext

from runtime.checkpoint.settings import CheckpointSettings
from runtime.common import options
from runtime.execution.attempt_passes import ASK_AGAIN_MS, AttemptPasses
from runtime.execution.passes.job_pass import JobPass
from runtime.execution.passes.plan import PassKind, PassPlan, TaskOutcome, TaskPrinted
from runtime.execution.session_health import JvmCall
from runtime.execution.slot_host import SlotHost
from runtime.execution.spark_pass import SparkPass
from runtime.execution.spark_query import BatchQuery, QueryBatch, QueryFacts, Work, run_order
from runtime.task.messages import FailureInfo, TriggerCheckpoint

_CANCELS, _CANCEL_PAUSE_S = 60, 0.5
"""How often what was given up is cancelled, and the pauses in between."""


def group_beside(group: str) -> str:
    """Return the job group of the passes that no query runs."""
    return f"{group}-beside"


class SparkPasses(AttemptPasses):
    """The passes of one attempt, and the query that drives them. The host's thread, but for what is posted.

    Args:
        host: whose passes they are.
        context: where they run.
        group: begins the names of the query and of the job group.
        post: runs an action in the host's thread.
    """

    def __init__(
        self, host: SlotHost, context: SparkContext, group: str, post: Callable[[Callable[[], None]], None]
    ) -> None:
        self._host = host
        self._context = context
        self._post = post
        self._query: BatchQuery | None = None
        #: the query's call that waits for its batch to be complete
        self._batch: QueryBatch | None = None
        self._has_begun = False
        self._ask_at_ms: float | None = None
        #: runs what is no batch
        self._beside = ThreadPoolExecutor(1, "passes")
        self._running_beside: Future[Any] | None = None
        self._name, self._group_beside = f"{group} {id(self):x}", group_beside(group)
        self._is_closed = self._has_given_up = False
        #: whether Spark goes on asking for a batch when there was none
        self._is_periodic = False

    def running(self) -> None:
        configuration = self._host.facts.configuration
        settings = CheckpointSettings.from_configuration(configuration)
        directory = self._host.local_directory()
        trigger = configuration.get(options.MICRO_BATCH_TRIGGER)
        self._is_periodic = trigger == "processing-time"
        facts = QueryFacts(
            name=self._name,
            trigger=trigger,
            interval_ms=settings.interval_ms or 0,
            location=directory / "query",
            answer=directory / "query.json",
        )
        self._query = BatchQuery(
            self._context,
            facts,
            lambda batch: self._post(lambda: self._begun(batch)),
            lambda error: self._post(lambda: self._ended(error)),
        )

    def kind_of(self, trigger: TriggerCheckpoint) -> PassKind:
        kind = PassKind.of(trigger.options)
        return PassKind.IDLE if kind is PassKind.DATA and self._batch is None else kind

    def begin(self, plan: PassPlan) -> JobPass:
        is_batch = plan.kind is PassKind.DATA and self._batch is not None
        self._has_begun = self._has_begun or is_batch
        submit = self._batch.submit if is_batch and self._batch is not None else self._submit_beside
        on_abandon = self._give_up if is_batch else self._cancel_beside
        made = SparkPass(
            plan,
            submit,
            self._submit_beside,
            self._print,
            self._task_ended,
            lambda: self._post(_nothing),
            on_abandon,
            self._host.local_directory() / f"frames-{plan.number}-{uuid.uuid4().hex[:8]}",
        )
        made.number = self._batch.number if is_batch and self._batch is not None else None
        return made

    def completed(self, run: JobPass) -> None:
        if run.plan.kind is PassKind.DATA:
            if self._query is not None:
                self._query.say_more(self._host.is_batch_due if self._is_periodic else self._host.has_more)
            self._finish()

    def batch_due(self) -> None:
        if self._query is not None:
            self._query.say_more(True)

    def tick(self) -> None:
        if self._ask_at_ms is not None and self._host.clock.monotonic_ms() >= self._ask_at_ms:
            self._ask_at_ms = None
            if self._batch is not None and not self._has_begun:
                self._ask()

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._query is not None:
            self._query.stop()
        self._finish("the attempt has ended")
        self._cancel_beside()
        self._beside.shutdown(wait=False, cancel_futures=True)

    # --- the query ----------------------------------------------------------------------------------------------------

    def _begun(self, batch: QueryBatch) -> None:
        if self._is_closed:
            batch.finish("the attempt has ended")
            return
        self._batch, self._has_begun = batch, False
        self._host.spark_took(batch.before_ms)
        self._ask()

    def _ask(self) -> None:
        self._host.ask_for_checkpoint()
        self._ask_at_ms = self._host.clock.monotonic_ms() + ASK_AGAIN_MS

    def _ended(self, error: str | None) -> None:
        if self._is_closed or self._has_given_up:
            return
        if error is not None:
            self._host.failed(FailureInfo(f"the query of the job has ended: {error.splitlines()[0]}", error))
        elif self._host.has_more:
            self._host.failed(FailureInfo("the query of the job has ended although there are more batches"))

    def _finish(self, error: str | None = None) -> None:
        batch, self._batch = self._batch, None
        if batch is not None:
            batch.finish(error)

    def _give_up(self) -> None:
        """End the query because its batch has failed, which the JobMaster knows."""
        self._has_given_up = True
        self._finish("the batch was given up")

    # --- passes beside it ---------------------------------------------------------------------------------------------

    def _submit_beside(self, work: Work) -> Future[Any]:
        future = self._running_beside = Future[Any]()
        self._beside.submit(self._run_beside, future, work)
        return future

    def _run_beside(self, future: Future[Any], work: Work) -> None:
        try:
            self._context.setJobGroup(self._group_beside, "a batch, a savepoint or a commit", interruptOnCancel=False)
        except Exception as error:
            future.set_exception(error)
        else:
            run_order(future, work, self._context)

    def _cancel_beside(self) -> None:
        running = self._running_beside
        if running is not None and not running.done():
            JvmCall(lambda: self._cancel_until_over(running))

    def _cancel_until_over(self, running: Future[Any]) -> None:
        """Cancel what runs, again and again: what has not begun is in no group yet."""
        for _ in range(_CANCELS):
            self._context.cancelJobGroup(self._group_beside)
            if wait([running], _CANCEL_PAUSE_S).done:
                return

    def _task_ended(self, outcomes: Sequence[TaskOutcome]) -> None:
        self._post(lambda: self._host.tasks_ended(outcomes))

    def _print(self, printed: TaskPrinted) -> None:
        self._host.client_of(printed.task).send(printed.channel, printed.payload)


def _nothing() -> None:
    """Do nothing; the thread looks at its hosts when it is woken."""
