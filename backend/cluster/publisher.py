"""Publisher: the leader's live documents and metrics on the bus. Nothing here is durable.

Used by the jobmanager's loop. While the bus is away nothing is sent; the final documents of ended jobs are kept until
they are sent, because otherwise the bus would show those jobs running for ever.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from backend.cluster import bus
from backend.cluster.checkpoint_document import CheckpointDetails
from backend.cluster.cluster_document import MAX_ENDED_JOBS, cluster_document, figures_of, job_entry, lasting_part
from backend.cluster.job_runner import JobRunner
from backend.cluster.leader_bus import BusError, LeaderBus, RefusedError
from backend.cluster.live_document import told_document
from backend.cluster.metric_history import MetricHistory
from backend.cluster.models import TERMINAL_STATES, Job
from backend.cluster.peek_document import PeekDocuments
from backend.cluster.stack_document import vertex_stacks
from backend.cluster.task_metrics import metric_fields
from backend.cluster.taskmanager_samples import taskmanager_history, taskmanager_rows
from runtime.core.clock import Clock

logger = logging.getLogger(__name__)

#: maximum interval of the cluster's document, whose heartbeats and free memory change all the time
CLUSTER_MS = 10_000
#: interval at which it is published because figures of jobs have moved: all pages get it, whatever they show
FIGURES_MS = 2_000
#: documents that do not change are published again, because they expire
RENEW_MS = bus.EXPIRY_S * 1000 // 3

Document = dict[str, Any]


class Publisher:
    """Publishes for one leader.

    Args:
        leader_bus: the bus.
        clock: for the times of documents.
        may_act: returns whether the leader's lease is valid. It is asked before each write, because a bus that was
            emptied does not know whom to refuse; may raise LeadershipLostError.
    """

    def __init__(self, leader_bus: LeaderBus, clock: Clock, may_act: Callable[[], bool]) -> None:
        self._bus = leader_bus
        self._clock = clock
        self._may_act = may_act
        #: whether the bus does not answer: nothing is sent
        self.is_away = False
        #: job → its entry in the cluster's document
        self._entries: dict[str, Document] = {}
        #: running job → the version of its document that was sent last
        self._published: dict[str, int] = {}
        self._details: dict[str, CheckpointDetails] = {}
        #: final documents of ended jobs that the bus may not have
        self._untold_ends: dict[str, Document] = {}
        self._version = 0
        #: the lasting part of the cluster's document that was sent last, and when, monotonic ms
        self._told_cluster: Document = {}
        #: figures of jobs that were sent last
        self._told_figures: list[tuple[Any, ...]] = []
        self._told_cluster_ms = 0.0
        self._renewed_ms = clock.monotonic_ms()
        #: number of the newest report of stacks that was published, by job
        self._told_stacks: dict[str, int] = {}
        #: versions of the peeks that were published last, by job
        self._told_peeks: dict[str, dict[str, int]] = {}
        #: documents of peeks, by job
        self._peek_documents: dict[str, PeekDocuments] = {}
        self._history = MetricHistory(leader_bus.add_sample, clock)
        self._sampled_taskmanagers: set[str] = set()

    def recover(self, jobs: Iterable[Job]) -> None:
        """Note the jobs of earlier leaders, as their rows describe them, except where a row's document is malformed."""
        for job in jobs:
            if not job.document:
                continue
            try:
                entry, told = job_entry(job.document), told_document(job.document)
            except (AttributeError, KeyError, TypeError) as error:
                logger.warning("the document of job %s cannot be read: %r", job.id, error)
                continue
            self._entries[job.id] = entry
            if job.is_terminal:
                self._untold_ends[job.id] = told

    def takes_writes(self) -> bool:
        """Return whether a bus that was away takes writes again: it may answer what only reads before."""
        try:
            self._bus.beat()
        except RefusedError:
            # a later leader writes to it
            return True
        except BusError:
            return False
        return True

    def bus_is_back(self) -> None:
        """Send again, and everything: the bus may have lost it."""
        self.is_away = False
        self._forget_published()

    # --- jobs ---------------------------------------------------------------------------------------------------------

    def job(self, runner: JobRunner) -> None:
        """Publish the document of a running job if it has changed."""
        document = runner.document()
        self._entries[runner.job.id] = job_entry(document)
        if document["version"] != self._published.get(runner.job.id):
            self._tell_checkpoints(runner)
            self._tell(document)

    def has_told(self, job_id: str) -> bool:
        """Return whether the bus has a document of a running job."""
        return job_id in self._published

    def job_saved(self, runner: JobRunner, document: Document) -> None:
        """Publish a document of a job whose row has just been saved with it."""
        self._entries[runner.job.id] = job_entry(document)
        if not runner.job.is_terminal:
            self._tell_checkpoints(runner)
            self._tell(document)
        else:
            self.job_ended(document)
            self.metrics(runner, bus.EXPIRY_S)
            self._tell_checkpoints(runner)

    def job_waits(self, document: Document) -> None:
        """Publish the document of a job that has no runner yet, as its row has it, unless that is done."""
        self._entries[document["id"]] = job_entry(document)
        if document["version"] != self._published.get(document["id"]):
            self._tell(told_document(document))

    def job_ended(self, document: Document) -> None:
        """Publish the final document of a job."""
        self._entries[document["id"]] = job_entry(document)
        self._untold_ends[document["id"]] = told_document(document)
        self._tell_ends()

    def shown_as_running(self) -> set[str]:
        """Return the jobs that have not ended as far as the bus's readers are told."""
        return {job_id for job_id, entry in self._entries.items() if entry["state"] not in TERMINAL_STATES}

    def forget(self, job_id: str) -> None:
        """Forget a job that has ended, apart from its entry and a final document that is still to be sent."""
        self._published.pop(job_id, None)
        self._details.pop(job_id, None)
        self._told_stacks.pop(job_id, None)
        self._told_peeks.pop(job_id, None)
        self._peek_documents.pop(job_id, None)
        self._history.forget(job_id)

    def metrics(self, runner: JobRunner, expiry_s: int = bus.METRICS_EXPIRY_S) -> None:
        """Publish the metrics of a job's subtasks."""
        if not self._may_send():
            return
        try:
            self._bus.put_fields(bus.METRICS_KEY.format(runner.job.id), metric_fields(runner.tasks()), expiry_s, ())
        except BusError as error:
            self._has_failed(f"metrics of job {runner.job.id}", error)

    def sample(self, runner: JobRunner) -> None:
        """Add a sample to the history of a job's metrics; what goes wrong is lost."""
        if self._may_send():
            self._history.sample(runner)

    def sample_taskmanagers(
        self, taskmanagers: Sequence[Document], memory: Iterable[Mapping[tuple[str, int], float]]
    ) -> None:
        """Add a sample to the history of each TaskManager's memory.

        Args:
            taskmanagers: entries of `taskmanager_entry`.
            memory: of the slots of each running job, see `taskmanager_samples.memory_of_slots`.
        """
        if not self._may_send():
            return
        rows = taskmanager_rows(taskmanagers, memory)
        for name, row in rows.items():
            self._history.add(taskmanager_history(name), row)
        for name in self._sampled_taskmanagers - rows.keys():
            self._history.forget(taskmanager_history(name))
        self._sampled_taskmanagers = set(rows)

    def stacks(self, runner: JobRunner) -> None:
        """Publish what the subtasks of a job were seen to do since the last time."""
        job_id = runner.job.id
        reports = runner.stack_reports()
        newest = max((report.number for report in reports), default=0)
        told = self._told_stacks.get(job_id, 0)
        if newest <= told or not self._may_send():
            return
        now = self._clock.now_ms()
        fields: dict[str, Document] = {
            report.vertex_id: dict(vertex_stacks(report, now)) for report in reports if report.number > told
        }
        try:
            self._bus.put_fields(bus.STACKS_KEY.format(job_id), fields, bus.STACKS_EXPIRY_S, ())
            self._told_stacks[job_id] = newest
        except BusError as error:
            self._has_failed(f"stacks of job {job_id}", error)

    def peeks(self, runner: JobRunner) -> None:
        """Publish what the peeks at a job have seen since the last time; it goes with their leases."""
        job_id = runner.job.id
        views = runner.peeks()
        told = self._told_peeks.get(job_id, {})
        fresh = [view for view in views if told.get(view.peek_id) != view.version]
        if not fresh or not self._may_send():
            if not views:
                self._told_peeks.pop(job_id, None)
                self._peek_documents.pop(job_id, None)
            return
        documents = self._peek_documents.setdefault(job_id, PeekDocuments())
        documents.keep(view.peek_id for view in views)
        try:
            for view in fresh:
                seen: dict[str, Document] = {"seen": dict(documents.of(view))}
                expiry_s = math.ceil(view.lease_ms / 1_000)
                self._bus.put_fields(bus.PEEK_KEY.format(view.peek_id), seen, expiry_s, ())
            self._told_peeks[job_id] = {view.peek_id: view.version for view in views}
        except BusError as error:
            self._has_failed(f"peeks at job {job_id}", error)

    # --- the cluster --------------------------------------------------------------------------------------------------

    def cluster(self, taskmanagers: Sequence[Document]) -> None:
        """Publish the cluster's document, and vouch for all live documents.

        Args:
            taskmanagers: entries of `taskmanager_entry`.
        """
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._renewed_ms >= RENEW_MS:
            self._renewed_ms = now_ms
            self._forget_published()
        self._tell_ends()
        now = self._clock.now_ms()
        self._version = max(now, self._version + 1)
        document = cluster_document(taskmanagers, self._listed(), now, self._version)
        lasting = lasting_part(document)
        figures, since_ms = figures_of(document), now_ms - self._told_cluster_ms
        has_moved = figures != self._told_figures and since_ms >= FIGURES_MS
        is_due = lasting != self._told_cluster or has_moved or since_ms >= CLUSTER_MS
        if is_due and self._send("cluster", document):
            self._told_cluster, self._told_figures, self._told_cluster_ms = lasting, figures, now_ms
        self._vouch()

    def _listed(self) -> list[Document]:
        """Return the entries of all running jobs and of those that ended last, newest first, and forget the others."""
        ended = [entry for entry in self._entries.values() if entry["state"] in TERMINAL_STATES]
        for entry in sorted(ended, key=lambda entry: -(entry["end_time"] or 0))[MAX_ENDED_JOBS:]:
            del self._entries[entry["id"]]
        return sorted(self._entries.values(), key=lambda entry: -entry["start_time"])

    def _vouch(self) -> None:
        """Tell readers that the live documents are up to date; publish them again if the bus has lost them."""
        if not self._may_send():
            return
        try:
            if not self._bus.beat():
                self._forget_published()
        except BusError as error:
            self._has_failed("the beat of live documents", error)

    def _forget_published(self) -> None:
        """Publish everything again at the next turn."""
        self._published.clear()
        self._told_cluster = {}
        for details in self._details.values():
            details.forget()

    def _has_failed(self, what: str, error: BusError) -> None:
        """Note a failed write. What TaskManagers write fails as well: until it is back, nothing waits for the bus, and
        nobody's silence means anything.
        """
        logger.warning("%s could not be published: %s", what, error)
        if not isinstance(error, RefusedError):
            self.is_away = True

    def _may_send(self) -> bool:
        return not self.is_away and self._may_act()

    # --- small things -------------------------------------------------------------------------------------------------

    def _tell(self, document: Document) -> None:
        if self._send(f"job:{document['id']}", document):
            self._published[document["id"]] = document["version"]

    def _tell_ends(self) -> None:
        """Publish final documents, until one cannot be: the rest waits with it."""
        for job_id, document in list(self._untold_ends.items()):
            if not self._send(f"job:{job_id}", document):
                return
            del self._untold_ends[job_id]

    def _send(self, topic: str, document: Document) -> bool:
        if not self._may_send():
            return False
        try:
            self._bus.publish(topic, document)
        except BusError as error:
            self._has_failed(f"live document {topic}", error)
            return False
        return True

    def _tell_checkpoints(self, runner: JobRunner) -> None:
        """Publish what has changed of a job's checkpoints.

        The first time, all: what an earlier leader has published goes, for nobody would ever tell the end of a
        checkpoint that was in progress when it was killed.
        """
        details = self._details.setdefault(runner.job.id, CheckpointDetails())
        if not self._may_send():
            return
        checkpoints = runner.checkpoints()
        told = (
            (bus.CHECKPOINTS_KEY, details.changed(checkpoints)),
            (bus.TRACES_KEY, details.changed_traces(checkpoints)),
        )
        try:
            for key, (changed, gone) in told:
                if changed or gone or gone is None:
                    self._bus.put_fields(key.format(runner.job.id), changed, bus.EXPIRY_S, gone)
        except BusError as error:
            details.forget()
            self._has_failed(f"checkpoints of job {runner.job.id}", error)
