"""Snapshots that are written while processing goes on, against copies of plain dicts (Hypothesis).

Random operations between the steps of snapshots of every kind, of which several may be under way; some are given up,
others complete; from the newest complete one backends of any parallelism, and of any kind, go on.
"""

from __future__ import annotations

import copy
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from runtime.core.checkpoint_options import SnapshotKind
from runtime.core.ids import CheckpointId
from runtime.state.handles import KeyedStateHandle, PendingKeyedState
from runtime.state.key_groups import key_group_range
from runtime.state.readers import load_keyed_state
from runtime.state.snapshot import SnapshotRequest
from tests.state.backends import BACKENDS, MAX_PARALLELISM, TEMPORARY
from tests.state.files import DirectoryFiles
from tests.state.test_backend_property import BackendMachine


@dataclass
class Model:
    """Expected content of the backends."""

    state: Any
    timers: Any
    watermark: int


@dataclass
class Running:
    """A snapshot that is being written."""

    checkpoint_id: CheckpointId
    pending: list[PendingKeyedState]
    model: Model


class SnapshotMachine(BackendMachine):
    """BackendMachine with checkpoints."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory(dir=TEMPORARY)
        self.files = DirectoryFiles(Path(self.directory.name) / "checkpoints")
        self.restores = 0
        self.last_id = 0
        self.running: list[Running] = []
        self.completed: tuple[list[KeyedStateHandle], Model] | None = None

    @precondition(lambda self: len(self.running) < 3)
    @rule(kind=st.sampled_from(SnapshotKind))
    def begin(self, kind: SnapshotKind) -> None:
        self.last_id += 1
        checkpoint_id = CheckpointId(self.last_id)
        pending = []
        for backend in self.backends:
            taken = backend.snapshot(SnapshotRequest(kind, checkpoint_id))
            assert isinstance(taken, PendingKeyedState)
            pending.append(taken)
        model = Model(copy.deepcopy(dict(self.model)), set(self.timers), self.watermark)
        self.running.append(Running(checkpoint_id, pending, model))

    @rule()
    def take_a_checkpoint(self) -> None:
        self.give_up_all()
        self.begin(SnapshotKind.INCREMENTAL)
        self.complete()

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 2), steps=st.integers(1, 10))
    def advance_some(self, which: int, steps: int) -> None:
        running = self.running[which % len(self.running)]
        for pending in running.pending:
            for _ in range(steps):
                if pending.advance(0):
                    break

    @precondition(lambda self: self.running)
    @rule()
    def complete(self) -> None:
        running = self.running.pop(0)
        for pending in running.pending:
            while not pending.advance(1):
                pass
        self.completed = [pending.write(self.files) for pending in running.pending], running.model
        for backend in self.backends:
            backend.notify_checkpoint_complete(running.checkpoint_id)

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 2), is_late=st.booleans())
    def abort(self, which: int, is_late: bool) -> None:
        running = self.running.pop(which % len(self.running))
        for pending in running.pending:
            if is_late:
                while not pending.advance(1):
                    pass
                pending.write(self.files)
            else:
                pending.discard()
        for backend in self.backends:
            backend.notify_checkpoint_aborted(running.checkpoint_id)

    @precondition(lambda self: self.completed)
    @rule(parallelism=st.integers(1, 3), backend=st.sampled_from(sorted(BACKENDS)))
    def restore(self, parallelism: int, backend: str) -> None:
        assert self.completed is not None
        handles, model = self.completed
        self.give_up_all()
        for old in self.backends:
            old.dispose()
        self.backends = []
        for index in range(parallelism):
            self.restores += 1
            key_groups = key_group_range(MAX_PARALLELISM, parallelism, index)
            directory = Path(self.directory.name) / f"restore-{self.restores}"
            snapshot = load_keyed_state(handles, key_groups, MAX_PARALLELISM, self.files, directory)
            restored = BACKENDS[backend](key_groups, MAX_PARALLELISM, self.clock)
            restored.restore(snapshot)
            self.backends.append(restored)
        self.model.clear()
        self.model.update(copy.deepcopy(model.state))
        self.timers = set(model.timers)
        self.watermark = model.watermark
        self.open()
        self.check()

    def state_is_as_in_the_model(self) -> None:
        """No invariant here: looking at every key after every step would touch them all."""

    @rule()
    def check(self) -> None:
        super().state_is_as_in_the_model()

    @rule(parallelism=st.integers(1, 3))
    def rescale(self, parallelism: int) -> None:
        self.give_up_all()
        super().rescale(parallelism)

    def give_up_all(self) -> None:
        for running in self.running:
            for pending in running.pending:
                pending.discard()
        self.running.clear()

    def teardown(self) -> None:
        self.give_up_all()
        super().teardown()
        self.directory.cleanup()


def _test_case(name: str, examples: int, steps: int) -> Any:
    machine = type(f"{name}SnapshotMachine", (SnapshotMachine,), {"factory": staticmethod(BACKENDS[name])})
    test_case = machine.TestCase  # type: ignore[attr-defined]
    test_case.settings = settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    return test_case


TestHashMapSnapshotsAgainstDicts = _test_case("hashmap", 20, 30)
TestRocksDBSnapshotsAgainstDicts = _test_case("rocksdb", 6, 30)
# minutes each, more on a busy machine
_many = pytest.mark.timeout(2 * 3600)
TestManyHashMapSnapshotsAgainstDicts = pytest.mark.slow(_many(_test_case("hashmap", 100, 60)))
TestManyRocksDBSnapshotsAgainstDicts = pytest.mark.slow(_many(_test_case("rocksdb", 40, 60)))
TestHundredsOfHashMapSnapshotsAgainstDicts = pytest.mark.soak(_many(_test_case("hashmap", 1_000, 60)))
TestHundredsOfRocksDBSnapshotsAgainstDicts = pytest.mark.soak(_many(_test_case("rocksdb", 400, 60)))
