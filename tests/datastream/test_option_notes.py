"""Options of a program that decide nothing, or are set under a former key, are named when it is started."""

from __future__ import annotations

import logging

import pytest

from runtime.datastream.option_notes import former_keys, ignored_options, unknown_options
from tests.datastream.running import environment, values_of


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("execution.checkpointing.intervall", "execution.checkpointing.interval"),
        ("execution.checkpoint.interval", "execution.checkpointing.interval"),
        ("execution.checkpointing.num_retained", "execution.checkpointing.num-retained"),
        ("restart-strategy.fixed-delay.attempt", "restart-strategy.fixed-delay.attempts"),
        ("paralelism.default", "parallelism.default"),
        ("state.backend.rocksdb.memory.fixed-per-slots", "state.backend.rocksdb.memory.fixed-per-slot"),
        # Tidemark counts bytes
        (
            "taskmanager.network.memory.floating-buffers-per-gate",
            "taskmanager.network.memory.floating-bytes-per-gate",
        ),
    ],
)
def test_a_misspelt_option_is_named_with_the_one_that_is_meant(key: str, meant: str) -> None:
    assert ignored_options([key, meant]) == {key: f"there is no such option; {meant} may be meant"}


@pytest.mark.parametrize(
    "key",
    [
        "execution.checkpointing.interval",
        "state.checkpoints.dir",  # as it was once called
        "execution.checkpointing.write-buffer-size",  # Flink's, without a counterpart
        "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout",
        "state.backend.rocksdb.thread.num",
        "spark.sql.shuffle.partitions",
        "shop.currency",
    ],
)
def test_what_is_known_or_nothing_like_an_option_is_left_alone(key: str) -> None:
    assert ignored_options([key]) == {}


def test_what_is_no_option_and_nothing_like_one_is_unknown() -> None:
    keys = ["foo", "shop.currency", "execution.checkpointing.intervall", "parallelism.default", "state.checkpoints.dir"]
    assert unknown_options([*keys, "spark.sql.shuffle.partitions"]) == ["foo", "shop.currency"]


def test_a_program_says_so_when_it_is_started(caplog: pytest.LogCaptureFixture) -> None:
    env = environment(
        options={"execution.checkpointing.intervall": "1 s", "state.backend.rocksdb.log.level": "INFO_LEVEL"}
    )
    with caplog.at_level(logging.WARNING):
        assert values_of(env.from_collection([1, 2, 3])) == [1, 2, 3]
    [warning] = [r.getMessage() for r in caplog.records if "no effect" in r.getMessage()]
    assert "execution.checkpointing.intervall (there is no such option; execution.checkpointing.interval may" in warning
    assert "state.backend.rocksdb.log.level (rocksdict cannot set it" in warning


def test_a_former_key_is_named_with_the_present_one() -> None:
    keys = ["state.backend", "restart-strategy", "restart-strategy.fixed-delay.attempts"]
    assert former_keys(keys) == {"state.backend": "state.backend.type", "restart-strategy": "restart-strategy.type"}
    assert ignored_options(keys) == {}


def test_a_former_key_beside_the_one_that_counts_has_no_effect() -> None:
    keys = ["state.backend", "state.backend.type", "state.checkpoints.dir", "state.backend.fs.checkpointdir"]
    assert former_keys(keys) == {"state.checkpoints.dir": "execution.checkpointing.dir"}
    assert ignored_options(keys) == {
        "state.backend": "state.backend.type is set as well",
        "state.backend.fs.checkpointdir": "state.checkpoints.dir is set as well",
    }


def test_a_program_under_former_keys_is_told_so_once_and_runs_by_them(caplog: pytest.LogCaptureFixture) -> None:
    env = environment(options={"pipeline.operator-chaining": "false", "execution.buffer-timeout": "7 ms"})
    assert not env.is_chaining_enabled()
    assert env.get_buffer_timeout() == 7
    with caplog.at_level(logging.WARNING):
        assert values_of(env.from_collection([1, 2, 3])) == [1, 2, 3]
    [warning] = [r.getMessage() for r in caplog.records if "former" in r.getMessage()]
    assert "pipeline.operator-chaining (now pipeline.operator-chaining.enabled)" in warning
    assert "execution.buffer-timeout (now execution.buffer-timeout.interval)" in warning
