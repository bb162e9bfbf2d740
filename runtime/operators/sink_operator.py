"""SinkOperator: the end of a chain; hands records to a sink's writer and makes them visible in a second step.

At a snapshot the writer prepares committables. They are kept, and written into every snapshot, until a checkpoint that
holds them is complete: only then are they committed, so those of a checkpoint that was given up enter the next one.
After a restore each subtask commits its share of what the checkpoint holds, again if need be, before it takes records;
subtask 0 then has what older attempts left behind swept, then and after each completed checkpoint. A snapshot holds its
job's SinkHistory, so that a job that claims it can sweep what that job left, once its own checkpoints have replaced the
claimed one, however many attempts that takes, and what older checkpoints that are retained hold, which no attempt may
sweep. A job without checkpoints commits in `commit_finished`.
Source: Flink, SinkWriterOperator and CommitterOperator, in one; KafkaWriterState.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from runtime.common import options
from runtime.common.typeinfo import TypeInformation
from runtime.core.batch import RecordBatch
from runtime.core.elements import Watermark
from runtime.core.ids import Attempt, CheckpointId
from runtime.graph.changelog import ChangelogInput
from runtime.operators.operator import OneInputOperator, no_mailbox
from runtime.operators.sink import Committer, Sink, SinkError, SinkWriter, Sweeper, WriterContext
from runtime.operators.sink_metrics import SinkMetrics
from runtime.state.snapshot import (
    CANONICAL_SNAPSHOT,
    OperatorSnapshot,
    OperatorStateSnapshot,
    Redistribution,
    SnapshotRequest,
)
from runtime.state.state_meta import UNION_OF_OPERATOR, DeclaredStates, StateMeta, json_of

WRITER_STATE = "sink-writer"
"""Name of the operator state with the writers' own items."""
COMMITTABLES_STATE = "sink-committables"
"""Name of the operator state with what was prepared and not yet committed: {"checkpoint", "committable"}."""
HISTORY_STATE = "sink-history"
"""Name of the operator state with the SinkHistory of each subtask: {"jobs", "completed"}."""
HELD_STATE = "sink-held"
"""Name of the operator state with what older checkpoints of the job hold that are retained: {"completed", "items"}."""
ORIGIN_STATE = "sink-origin"
"""Name of the operator state that earlier versions wrote instead of HISTORY_STATE: the first of its jobs."""


class _Pending(NamedTuple):
    """Something that was prepared and is not known to be visible."""

    checkpoint_id: int | None
    """The first checkpoint that holds it; None: none does yet."""
    committable: Any


class _Held(NamedTuple):
    """Contents of a checkpoint that the job may go back to."""

    num_completed: int
    """Checkpoints of the job that are known to be completed after it; as many as are retained take its place."""
    items: Sequence[Any]


@dataclass(frozen=True, slots=True)
class SinkHistory:
    """Jobs that have claimed one another's snapshots, and how far the last of them has come."""

    jobs: tuple[str, ...]
    """Each has claimed a snapshot of the one before it; the last one is the running job."""
    num_completed: int = 0
    """Checkpoints of the running job that are known to be complete, of all its attempts."""

    @classmethod
    def of(cls, job_id: str, snapshot: OperatorSnapshot | None, claims: bool) -> SinkHistory:
        """Return the history of a job that resumes from a snapshot.

        Args:
            job_id: the job.
            snapshot: what it is restored from: a completed checkpoint of its own, or another job's snapshot.
            claims: whether it claims another job's snapshot.
        """
        items = [] if snapshot is None else _items(snapshot, HISTORY_STATE)
        known = [cls(tuple(item["jobs"]), item["completed"]) for item in items]
        own = [history.num_completed for history in known if history.jobs[-1] == job_id]
        if own:
            # the subtask that was told last knew of most; the restored checkpoint itself is complete, too
            return cls(known[0].jobs, max(own) + 1)
        if snapshot is None or not claims:
            return cls((job_id,))
        before = known[0].jobs if known else tuple(_items(snapshot, ORIGIN_STATE)[:1])
        return cls((*(job for job in before if job != job_id), job_id))

    def state(self) -> dict[str, Any]:
        """Return the item of HISTORY_STATE."""
        return {"jobs": self.jobs, "completed": self.num_completed}


class SinkOperator(OneInputOperator):
    """Writes one subtask's records."""

    commits_at_the_end = True

    def __init__(self, sink: Sink, input_type: TypeInformation | None) -> None:
        self._sink = sink
        self._input_type = input_type
        self._restored: list[Any] = []
        #: known once the state is initialized
        self._history = SinkHistory(("",))
        #: prepared before or after the restore, oldest first
        self._pending: list[_Pending] = []
        self._writer: SinkWriter | None = None
        self._committer: Committer | None = None
        self._sweeper: Sweeper | None = None
        self._has_prepared_all = False
        #: everything that the restored checkpoint holds, of all subtasks
        self._restored_held: Sequence[Any] = ()
        #: what that one holds and, in subtask 0, what older ones hold: as long as the job may go back to them
        self._held: list[_Held] = []
        #: whether the restored committables still have to be committed
        self._must_recover = False

    @property
    def pending_committables(self) -> list[Any]:
        """Return what was prepared and is not committed, oldest first."""
        return [pending.committable for pending in self._pending]

    def initialize_state(self, snapshot: OperatorSnapshot | None) -> None:
        claims = self.context.configuration.get(options.RECOVERY_CLAIM_MODE) == "claim"
        self._history = SinkHistory.of(self.context.job_id, snapshot, claims)
        if snapshot is None:
            return
        items = _items(snapshot, WRITER_STATE)
        committables = _items(snapshot, COMMITTABLES_STATE)
        self._restored_held = [*items, *(item["committable"] for item in committables)]
        self._held = [_Held(0, self._restored_held)]
        if any(item["jobs"][-1] == self.context.job_id for item in _items(snapshot, HISTORY_STATE)):
            # the restored checkpoint has been completed after them
            older = [_Held(item["completed"] + 1, item["items"]) for item in _items(snapshot, HELD_STATE)]
            self._held += filter(self._is_needed, older)
        # every subtask gets everything, to know what must not be swept; each continues a share of it
        subtask, parallelism = self.context.subtask_index, self.context.parallelism
        self._restored = items[subtask::parallelism]
        mine = committables[subtask::parallelism]
        self._pending = [_Pending(item["checkpoint"], item["committable"]) for item in mine]
        self._must_recover = True

    def open(self) -> None:
        """Make the writer, and make sure that what was restored is committed before the first record.

        Raises:
            SinkError: the target cannot be written to, or there are committables and nothing that can commit them. Its
                cause is a SnapshotUnusableError if what was restored is gone from the target.
        """
        context = self.context
        writer_context = self._writer_context()
        self._records_out = context.metrics.counter("numRecordsOut")
        self._metrics = SinkMetrics(context.metrics, context.clock, lambda: len(self._pending))
        self._writer = self._guarded(lambda: self._sink.create_writer(writer_context, self._restored))
        self._committer = self._guarded(self._sink.create_committer)
        self._check_committable()
        if self._committer is not None and self._pending:
            committer, restored = self._committer, self.pending_committables
            self._guarded(lambda: committer.check(restored))
        # the first attempt of a job has no older ones, unless it takes over another job's
        has_older = context.attempt > 0 or bool(writer_context.claimed_job_ids)
        if context.subtask_index == 0 and has_older:
            self._sweeper = self._guarded(lambda: self._sink.create_sweeper(writer_context))
            self._take_over_if_due()
        if self._must_recover or self._sweeper is not None:
            self._must_recover = True
            # as mail: once every task has restored its state. If one of them finds the checkpoint damaged an older one
            # is taken, and what only the damaged one holds must not be visible then.
            if context.mailbox is no_mailbox:
                self._recover()
            else:
                context.mailbox(self._recover)

    def _writer_context(self) -> WriterContext:
        context = self.context
        return WriterContext(
            subtask_index=context.subtask_index,
            parallelism=context.parallelism,
            attempt=context.attempt,
            task_name=context.task_name,
            input_type=self._input_type,
            configuration=context.configuration,
            clock=context.clock,
            processing_time=context.processing_time,
            metrics=context.metrics,
            client=context.client,
            job_id=context.job_id,
            operator_id=context.operator_id,
            claimed_job_ids=self._history.jobs[:-1],
            held=self._restored_held,
            pass_number=context.pass_number,
        )

    def _take_over_if_due(self) -> None:
        if self._sweeper is not None and self._history.num_completed >= self._num_retained:
            self._sweeper.take_over()

    def _is_needed(self, held: _Held) -> bool:
        return held.num_completed < self._num_retained

    @property
    def _num_retained(self) -> int:
        return self.context.configuration.get(options.RETAINED_CHECKPOINTS)

    def is_available(self) -> bool:
        return self._writer is None or self._writer.is_available()

    def process_batch(self, batch: RecordBatch) -> None:
        assert self._writer is not None
        started_ms = self._metrics.now_ms()
        try:
            self._writer.write(batch)
        except Exception as error:
            self._metrics.write_failed(batch.num_rows)
            raise self._describe(error) from error
        self._metrics.written(batch.num_rows, started_ms)
        self._records_out.inc(batch.num_rows)
        if batch.marks:
            self._writer.write_watermark(batch.marks[-1].watermark)
            self.output.emit_watermark(Watermark(batch.marks[-1].watermark))

    def process_watermark(self, watermark: Watermark) -> None:
        assert self._writer is not None
        self._writer.write_watermark(watermark.timestamp)
        self.output.emit_watermark(watermark)

    def finish(self) -> None:
        writer = self._writer
        assert writer is not None
        self._recover()
        self._guarded(lambda: writer.flush(end_of_input=True))
        self._prepare(writer)
        self._has_prepared_all = True
        self._check_committable()

    def snapshot_state(self, request: SnapshotRequest = CANONICAL_SNAPSHOT) -> OperatorSnapshot:
        writer = self._writer
        assert writer is not None
        # so that a completed checkpoint tells that everything restored has been committed
        self._recover()
        if not self._has_prepared_all:
            # a job that stops leaves nothing half-written: a job that resumes from the savepoint begins new files
            self._guarded(lambda: writer.flush(end_of_input=request.is_last))
        if request.is_savepoint:
            self._guarded(lambda: writer.prepare_savepoint(int(request.checkpoint_id)))
        if not self._has_prepared_all:
            self._prepare(writer)
            self._check_committable()
        checkpoint_id = int(request.checkpoint_id)
        kind = json_of(self._sink.state_format)
        self._pending = [
            p._replace(checkpoint_id=checkpoint_id) if p.checkpoint_id is None else p for p in self._pending
        ]
        states = {
            WRITER_STATE: _state(self._guarded(writer.snapshot_state), kind),
            COMMITTABLES_STATE: _state(
                [{"checkpoint": p.checkpoint_id, "committable": p.committable} for p in self._pending], kind
            ),
            HISTORY_STATE: _state([] if self._committer is None else [self._history.state()]),
        }
        # those that stay retained when this checkpoint is completed; only subtask 0 sweeps
        older = [held for held in self._held if held.items and held.num_completed + 1 < self._num_retained]
        if older and self.context.subtask_index == 0:
            held_items = [{"completed": held.num_completed, "items": held.items} for held in older]
            states[HELD_STATE] = _state(held_items, kind)
        return OperatorSnapshot(operator_states=states)

    def notify_checkpoint_complete(self, checkpoint_id: CheckpointId) -> None:
        """Commit what that checkpoint holds, and have older attempts' leftovers swept.

        Raises:
            SinkError: something could not be made visible; it stays pending, and the next attempt commits it.
        """
        due = [p for p in self._pending if p.checkpoint_id is not None and p.checkpoint_id <= checkpoint_id]
        self._commit(due)
        self._pending = [p for p in self._pending if p.checkpoint_id is None or p.checkpoint_id > checkpoint_id]
        self._history = replace(self._history, num_completed=self._history.num_completed + 1)
        held = [_Held(held.num_completed + 1, held.items) for held in self._held]
        # no checkpoint that this attempt may be followed by refers to the others any more
        self._held = list(filter(self._is_needed, held))
        self._take_over_if_due()
        self._sweep()

    def notify_savepoints_failed(self, savepoints: Sequence[tuple[Attempt, CheckpointId]]) -> None:
        sweeper = self._sweeper
        if sweeper is not None:
            for attempt, checkpoint_id in savepoints:
                sweeper.savepoint_failed(int(attempt), int(checkpoint_id))
            self._sweep()

    def commit_finished(self) -> None:
        """Commit what is pending; may be called again after an error, or for nothing.

        Raises:
            SinkError: something could not be made visible; it stays pending.
        """
        self._must_recover = False
        if self._committer is not None:
            self._commit(self._pending)
        self._pending = []
        # what is held stays: another subtask may end before it has committed, and the last checkpoint be damaged
        self._sweep()

    def job_finished(self) -> None:
        """Have everything swept that older attempts left.

        Raises:
            SinkError: the target does not answer.
        """
        sweeper = self._sweeper
        if sweeper is not None:
            self._guarded(lambda: sweeper.sweep_at_end(self._all_held()))

    def interrupt(self) -> None:
        writer = self._writer
        if writer is not None:
            writer.interrupt()

    def close(self) -> None:
        writer, self._writer = self._writer, None
        committer, self._committer = self._committer, None
        sweeper, self._sweeper = self._sweeper, None
        try:
            if writer is not None:
                writer.close()
        finally:
            try:
                if committer is not None:
                    committer.close()
            finally:
                if sweeper is not None:
                    sweeper.close()

    def _recover(self) -> None:
        """Commit what was restored, whether or not it was committed before, and sweep; once."""
        if self._must_recover and self._writer is not None:
            self._must_recover = False
            self._commit(self._pending)
            self._pending = []
            self._sweep()

    def _commit(self, due: Sequence[_Pending]) -> None:
        committer, writer = self._committer, self._writer
        if not due or committer is None:
            return
        committables = [pending.committable for pending in due]
        started_ms = self._metrics.now_ms()
        try:
            tally = self._guarded(lambda: committer.commit(committables))
        except SinkError:
            self._metrics.commit_failed(len(committables))
            raise
        self._metrics.committed(len(committables), started_ms, tally)
        if writer is not None:
            self._guarded(lambda: writer.committed(committables))

    def _sweep(self) -> None:
        sweeper = self._sweeper
        if sweeper is not None:
            self._guarded(lambda: sweeper.sweep(self._all_held()))

    def _all_held(self) -> list[Any]:
        return [item for held in self._held for item in held.items]

    def _prepare(self, writer: SinkWriter) -> None:
        committables = self._guarded(writer.prepare_commit)
        self._metrics.prepared(len(committables))
        self._pending.extend(_Pending(None, committable) for committable in committables)

    def _check_committable(self) -> None:
        if self._pending and self._committer is None:
            raise SinkError(f"sink {self.context.operator_name}: there are committables but no committer")

    def _guarded(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except Exception as error:
            raise self._describe(error) from error

    def _describe(self, error: Exception) -> SinkError:
        text = str(error) if isinstance(error, SinkError) else f"{type(error).__name__}: {error}"
        return SinkError(f"sink {self.context.operator_name}: {text}")


def _state(items: Sequence[Any], kind: str = "") -> OperatorStateSnapshot:
    return OperatorStateSnapshot(Redistribution.UNION, [json.dumps(item).encode() for item in items], kind)


def _items(snapshot: OperatorSnapshot, name: str) -> list[Any]:
    state = snapshot.operator_states.get(name)
    return [] if state is None else [json.loads(item) for item in state.items]


@dataclass(frozen=True, slots=True)
class SinkOperatorFactory:
    """Makes the operator of a sink; shipped to the slots."""

    sink: Sink
    input_type: TypeInformation | None

    def create(self) -> SinkOperator:
        return SinkOperator(self.sink, self.input_type)

    @property
    def declared_states(self) -> DeclaredStates:
        kind, names = json_of(self.sink.state_format), (WRITER_STATE, COMMITTABLES_STATE, HELD_STATE)
        return DeclaredStates(tuple(StateMeta(name, UNION_OF_OPERATOR, kind, namespaced=False) for name in names))

    @property
    def changelog_input(self) -> ChangelogInput:
        return ChangelogInput.TAKES if self.sink.accepts_changelog() else ChangelogInput.REFUSES

    @property
    def output_type(self) -> TypeInformation | None:
        return None
