"""The coordinator under random interleavings: nothing that can be restored loses a file, and nothing else keeps one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from runtime.checkpoint.handles import CheckpointMetrics
from runtime.checkpoint.messages import (
    Acknowledged,
    AttemptEnded,
    CoordinatorAction,
    CoordinatorEvent,
    DamageFound,
    Declined,
    FailJob,
    Forgotten,
    JobEnded,
    NotifyAborted,
    NotifyComplete,
    StoreCheckpoint,
    TaskFinished,
)
from runtime.checkpoint.outcome import JobOutcome
from runtime.checkpoint.pending_checkpoint import Stage
from runtime.checkpoint.settings import CheckpointSettings
from runtime.core.checkpoint_options import AfterSnapshot, SnapshotKind
from runtime.core.ids import Attempt
from tests.checkpoint.coordinator_rig import TASKS, Rig, completed

SETTINGS = st.builds(
    CheckpointSettings,
    interval_ms=st.sampled_from([100, 100, 1_000, None]),
    timeout_ms=st.sampled_from([60_000, 500]),
    min_pause_ms=st.sampled_from([0, 0, 300]),
    max_concurrent=st.integers(1, 3),
    tolerable_failures=st.sampled_from([100, 2, 0]),
    num_retained=st.integers(1, 2),
    is_incremental=st.sampled_from([True, True, False]),
    after_tasks_finish=st.sampled_from([True, True, False]),
    savepoint_directory=st.just("file:///saved"),
)


class CoordinatorLife(RuleBasedStateMachine):
    """Tasks answer in any order, late, twice or never; attempts come and go; the storage is slow and fails."""

    @initialize(chosen=SETTINGS, before=st.sampled_from(["nothing", "retained", "claimed", "unclaimed"]))
    def begin(self, chosen: CheckpointSettings, before: str) -> None:
        self.rig = Rig(replace(chosen, max_concurrent=1) if chosen.min_pause_ms else chosen)
        if before == "retained":
            self.rig.coordinator.recover([completed(1, self.rig)])
        elif before != "nothing":
            is_claimed = before == "claimed"
            checkpoint = completed(1, self.rig, is_owned=is_claimed, is_claimed=is_claimed)
            self.rig.coordinator.recover([], checkpoint)
            self.rig.pointers.clear()
            self.initial = None if is_claimed else checkpoint.metadata
            self.claimed = checkpoint.metadata if is_claimed else None
        self.damaged: set[str] = set()
        #: recorded checkpoints that were not found to be damaged
        self.standing: set[int] = set()
        self.is_running = False
        self.requests = 0
        self.completed_ids: list[int] = []
        deliver = self.rig.do

        def looked_at(event: CoordinatorEvent) -> list[CoordinatorAction]:
            actions = deliver(event)
            self.look(actions)
            return actions

        self.rig.do = looked_at  # type: ignore[method-assign]
        self.told: set[int] = set()
        self.start()

    initial: Any = None
    claimed: Any = None
    #: whether so many checkpoints of the job stood at once that the claimed snapshot's place was taken
    is_replaced = False

    def do(self, event: Any) -> None:
        self.rig.do(event)

    def look(self, actions: list[CoordinatorAction]) -> None:
        for action in actions:
            match action:
                case NotifyComplete(checkpoint_id):
                    metadata = self.rig.pointers.get(checkpoint_id)
                    assert metadata is not None, "sinks commit what recovery does not know of"
                    options = metadata.options
                    assert not options.is_savepoint or options.after is not AfterSnapshot.GO_ON
                    assert checkpoint_id > max(self.told, default=0)
                    self.told.add(checkpoint_id)
                case StoreCheckpoint(metadata) if self.initial is not None:
                    theirs = {f.uri for f in self.initial.files()}
                    assert theirs.isdisjoint(f.uri for f in metadata.files()), "what the user may delete is referred to"
                case NotifyAborted(checkpoint_id):
                    assert checkpoint_id not in self.told

    def start(self) -> None:
        if self.is_running or self.rig.coordinator.is_undecided:
            return
        self.rig.start()
        self.is_running = True

    # --- tasks --------------------------------------------------------------------------------------------------------

    @rule(data=st.data())
    def sources_answer(self, data: Any) -> None:
        asked = [n for n, stage in self.rig.coordinator.pending().items() if stage is Stage.SOURCES]
        if asked:
            self.rig.answer_sources(data.draw(st.sampled_from(asked)))

    @rule(data=st.data(), count=st.integers(1, 5), late_base=st.booleans(), compacts=st.booleans())
    def tasks_answer(self, data: Any, count: int, late_base: bool, compacts: bool) -> None:
        for _ in range(count):
            waiting = [
                (n, task)
                for n, stage in self.rig.coordinator.pending().items()
                if stage is Stage.TASKS
                for task in TASKS
                if task not in self.rig.acks.get(n, {})
            ]
            if waiting:
                number, task = data.draw(st.sampled_from(waiting))
                self.rig.acknowledge(number, task, late_base=late_base, compacts=compacts)

    @rule(data=st.data(), late_base=st.booleans(), compacts=st.booleans(), is_stored=st.booleans())
    def one_goes_through(self, data: Any, late_base: bool, compacts: bool, is_stored: bool) -> None:
        """All answers of one of those under way; single answers alone would seldom come so far."""
        pending = self.rig.coordinator.pending()
        if not pending:
            self.time_passes(self.rig.settings.interval_ms or 100)
            pending = self.rig.coordinator.pending()
        if not pending:
            return
        number = data.draw(st.sampled_from(list(pending)))
        if pending[number] is Stage.SOURCES:
            self.rig.answer_sources(number)
        for task in TASKS:
            if number in self.rig.coordinator.pending() and task not in self.rig.acks.get(number, {}):
                self.rig.acknowledge(number, task, late_base=late_base, compacts=compacts)
        while is_stored and self.rig.storing:
            self.the_storage_answers(succeeds=True)

    @rule(data=st.data())
    def a_task_answers_too_late(self, data: Any) -> None:
        over = [
            (n, task)
            for n in self.rig.triggers
            if n not in self.rig.coordinator.pending() and n not in self.completed_ids
            for task in TASKS
            if task not in self.rig.acks.get(n, {})
        ]
        if over:
            number, task = data.draw(st.sampled_from(over))
            refused = self.rig.coordinator.statistics().refused
            self.rig.acknowledge(number, task)
            assert self.rig.coordinator.statistics().refused == refused + 1

    @rule(data=st.data(), age=st.integers(0, 1))
    def a_task_answers_twice(self, data: Any, age: int) -> None:
        given_answers = [(n, task) for n, acks in self.rig.acks.items() for task in acks]
        if given_answers:
            number, task = data.draw(st.sampled_from(given_answers))
            attempt = Attempt(max(0, self.rig.attempt - age))
            self.do(Acknowledged(attempt, task, number, self.rig.acks[number][task], CheckpointMetrics()))

    @rule(data=st.data(), counts=st.booleans())
    def a_task_declines(self, data: Any, counts: bool) -> None:
        pending = list(self.rig.coordinator.pending())
        if pending:
            number = data.draw(st.sampled_from(pending))
            self.do(Declined(self.rig.attempt, number, "disk full", counts))

    @rule(task=st.sampled_from(TASKS))
    def a_task_finishes(self, task: Any) -> None:
        if self.is_running:
            self.do(TaskFinished(task))

    # --- storage, time, people ----------------------------------------------------------------------------------------

    @rule(succeeds=st.sampled_from([True, True, True, False]))
    def the_storage_answers(self, succeeds: bool) -> None:
        if self.rig.storing:
            number = self.rig.storing[0].metadata.checkpoint_id
            if succeeds:
                self.completed_ids.append(number)
                if self.rig.storing[0].is_recorded:
                    self.standing.add(number)
                self.is_replaced |= len(self.standing) >= self.rig.settings.num_retained
            self.rig.finish_storing(succeeds=succeeds)

    @rule(ms=st.sampled_from([1, 100, 500, 1_000]))
    def time_passes(self, ms: int) -> None:
        self.rig.advance(ms)

    @rule(
        kind=st.sampled_from([None, SnapshotKind.FULL, SnapshotKind.INCREMENTAL]),
        what=st.sampled_from(["checkpoint"] * 4 + ["savepoint"] * 4 + ["stop", "cancel", "final"]),
    )
    def somebody_asks(self, kind: SnapshotKind | None, what: str) -> None:
        self.requests += 1
        name = f"{what}-{self.requests}"
        match what:
            case "checkpoint":
                self.rig.request(name, kind=kind)
            case "savepoint":
                self.rig.request(name, is_savepoint=True)
            case "stop":
                self.rig.request(name, is_savepoint=True, after=AfterSnapshot.SUSPEND, is_last=True)
            case "cancel":
                self.rig.request(name, is_savepoint=True, is_last=True)
            case _:
                self.rig.request(name, is_last=True, counts_as_failure=True)

    # --- attempts -----------------------------------------------------------------------------------------------------

    @rule(often=st.integers(0, 2))
    def the_attempt_fails(self, often: int) -> None:
        # one that nothing more begins in fails sooner or later; a healthy one not all the time
        stuck = any(isinstance(a, FailJob) for a in self.rig.actions) or not self.rig.coordinator.pending()
        if self.is_running and (stuck or not often):
            self.is_running = False
            self.rig.fail_attempt()

    @rule(damage=st.sampled_from([False, False, False, True]))
    def the_next_attempt_runs(self, damage: bool) -> None:
        if self.is_running or self.rig.coordinator.is_undecided:
            return
        point = self.rig.coordinator.restore_point()
        if damage and point is not None:
            self.damaged |= {f.uri for f in point.metadata.files()}
            self.standing.discard(point.checkpoint_id)
            self.do(DamageFound(point.checkpoint_id, "sha256"))
            if self.rig.coordinator.is_undecided:
                self.do(Forgotten(point.checkpoint_id))
        self.start()

    # --- always -------------------------------------------------------------------------------------------------------

    @invariant()
    def the_newest_completed_one_is_gone_on_from(self) -> None:
        if not hasattr(self, "rig"):
            return
        point = self.rig.coordinator.restore_point()
        if self.rig.pointers and point is not None:
            assert point.checkpoint_id == max(self.rig.pointers)

    @invariant()
    def counts_add_up(self) -> None:
        if hasattr(self, "rig"):
            counts = self.rig.coordinator.statistics().counts
            assert counts.total == counts.completed + counts.failed + counts.in_progress
            assert counts.in_progress == len(self.rig.coordinator.pending())

    def teardown(self) -> None:
        """In the end only savepoints are left, and what was the user's or is damaged; every question has an answer."""
        if not hasattr(self, "rig"):
            return
        rig = self.rig
        rig.do(AttemptEnded("the end"))
        rig.do(JobEnded(JobOutcome.FINISHED))
        while rig.storing:
            rig.finish_storing()
        assert rig.coordinator.pending() == {}
        assert rig.pointers == {}
        assert len(rig.done) == self.requests
        theirs = {f.uri for m in rig.savepoints for f in m.files()}
        if self.initial is not None:
            theirs |= {f.uri for f in self.initial.files()}
        if self.claimed is not None and not self.is_replaced:
            # nothing has taken its place
            theirs |= {f.uri for f in self.claimed.files()}
        assert theirs <= rig.files | self.damaged
        assert rig.files <= theirs | self.damaged
        assert not any(isinstance(a, FailJob) and a.is_fatal for a in rig.actions)


TestCoordinatorLife = CoordinatorLife.TestCase
TestCoordinatorLife.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
