"""Settings of environments: kept and checked at once, refused at execute() where jobs cannot do what they ask for."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.common import ConfigurationError, Duration, Types
from runtime.common.serialization import RowFieldExtractorSchema
from runtime.common.types import Row
from runtime.datastream import (
    CheckpointConfig,
    CheckpointingMode,
    DataStreamError,
    ExternalizedCheckpointRetention,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
    KeyedProcessFunction,
    MapFunction,
    MemorySize,
    SlotSharingGroup,
    StreamExecutionEnvironment,
)
from runtime.jobmaster.driver import JobRequestError
from tests.datastream.running import environment, values_of


def test_a_program_that_takes_checkpoints_is_told_which_operators_have_no_uid(caplog: pytest.LogCaptureFixture) -> None:
    env = environment().enable_checkpointing(1000, CheckpointingMode.AT_LEAST_ONCE)
    assert env.get_checkpoint_interval() == 1000
    assert env.get_checkpointing_consistency_mode() is CheckpointingMode.AT_LEAST_ONCE
    numbers = env.from_collection([1, 2], Types.LONG()).uid("numbers").key_by(lambda n: n)
    assert sorted(values_of(numbers.process(Same(), Types.LONG()).name("same"))) == [1, 2]
    assert "state of same" in caplog.text
    assert "numbers" not in caplog.text


class Same(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        yield value


def test_a_program_is_told_which_options_have_no_effect(caplog: pytest.LogCaptureFixture) -> None:
    env = environment(
        options={
            "state.backend.rocksdb.timer-service.factory": "HEAP",
            "state.backend.rocksdb.metrics.block-cache-usage": "true",
            "state.backend.rocksdb.block.blocksize": "8 kb",
        }
    )
    assert values_of(env.from_collection([1])) == [1]
    (warning,) = [record.getMessage() for record in caplog.records if "no effect" in record.getMessage()]
    assert "rocksdb.timer-service.factory (timers are always in RocksDB" in warning
    assert "rocksdb.metrics.block-cache-usage (" in warning
    assert "blocksize" not in warning


def test_operators_without_uid_are_refused_if_uids_are_not_to_be_made_up() -> None:
    env = environment()
    env.get_config().disable_auto_generated_uids()
    stream = env.from_collection([1], Types.LONG()).uid("numbers").key_by(lambda n: n).process(Same(), Types.LONG())
    with pytest.raises(DataStreamError, match="these have none: KeyedProcess"):
        env.execute()
    stream.uid("same").print().uid("show")
    env.execute()


def test_checkpoint_settings_are_checked() -> None:
    config = CheckpointConfig()
    assert (config.is_checkpointing_enabled(), config.get_checkpoint_interval()) == (False, -1)
    with pytest.raises(ValueError, match="at least 10 ms"):
        config.set_checkpoint_interval(9)
    with pytest.raises(ConfigurationError):
        config.set_max_concurrent_checkpoints(0)
    with pytest.raises(ConfigurationError):
        config.set_checkpoint_timeout(1)
    with pytest.raises(ConfigurationError):
        config.set_min_pause_between_checkpoints(-1)
    config.set_fail_on_checkpointing_errors(False)
    assert not config.is_fail_on_checkpointing_errors()
    config.set_fail_on_checkpointing_errors(True)
    assert config.get_tolerable_checkpoint_failure_number() == 0
    config.enable_unaligned_checkpoints().set_alignment_timeout(
        Duration.of_seconds(2)
    ).set_force_unaligned_checkpoints()
    assert config.get_alignment_timeout() == Duration.of_seconds(2)
    assert config.is_force_unaligned_checkpoints()
    assert not config.disable_unaligned_checkpoints().is_unaligned_checkpoints_enabled()
    config.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION)
    assert config.is_externalized_checkpoints_enabled()


def test_settings_are_options_of_the_configuration() -> None:
    env = environment(options={"execution.checkpointing.interval": "1 s"})
    assert env.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
    env.get_configuration().set_string("execution.checkpointing.mode", "AT_LEAST_ONCE")
    assert env.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    env.set_default_savepoint_directory("file:///savepoints")
    assert env.get_default_savepoint_directory() == "file:///savepoints"
    assert env.get_configuration().get_string("execution.checkpointing.savepoint-dir") == "file:///savepoints"
    assert env.is_chaining_of_operators_with_different_max_parallelism_enabled()
    assert not env.is_unaligned_checkpoints_enabled()
    assert not env.is_force_unaligned_checkpoints()


def test_the_default_parallelism_of_a_process_can_be_set() -> None:
    before = StreamExecutionEnvironment.get_default_local_parallelism()
    try:
        StreamExecutionEnvironment.set_default_local_parallelism(7)
        assert StreamExecutionEnvironment.get_execution_environment().get_parallelism() == 7
    finally:
        StreamExecutionEnvironment.set_default_local_parallelism(before)
    with pytest.raises(DataStreamError, match="must be positive"):
        StreamExecutionEnvironment.set_default_local_parallelism(0)


def test_slot_sharing_groups_have_names_and_resources() -> None:
    group = (
        SlotSharingGroup.builder("big")
        .set_cpu_cores(2)
        .set_task_heap_memory_mb(100)
        .set_managed_memory(MemorySize(1 << 30))
        .set_task_off_heap_memory_mb(1)
        .set_external_resource("gpu", 1)
        .build()
    )
    assert (group.get_cpu_cores(), str(group.get_managed_memory())) == (2, "1 gb")
    assert group.get_external_resources() == {"gpu": 1}
    with pytest.raises(ValueError, match="both CPU cores and task heap memory"):
        SlotSharingGroup.builder("half").set_cpu_cores(1).build()
    with pytest.raises(ValueError, match="must be positive"):
        SlotSharingGroup.builder("none").set_cpu_cores(0)
    with pytest.raises(ValueError, match="must not be negative"):
        MemorySize(-1)
    env = environment().register_slot_sharing_group(group)
    stream = env.from_collection([1], Types.LONG()).map(lambda n: n, Types.LONG()).slot_sharing_group(group)
    nodes = env.create_stream_graph(None).nodes
    assert [node.slot_sharing_group for node in nodes.values()] == [None, "big"]
    assert values_of(stream) == [1]


def test_checkpoint_storages_are_values() -> None:
    assert JobManagerCheckpointStorage().get_max_state_size() == JobManagerCheckpointStorage.DEFAULT_MAX_STATE_SIZE
    files = FileSystemCheckpointStorage("file:///chk", 1 << 10)
    assert (files.get_checkpoint_path(), files.get_min_file_size_threshold()) == ("file:///chk", 1024)
    assert (files.get_write_buffer_size(), files.get_savepoint_path()) == (4096, None)
    with pytest.raises(ValueError, match=r"0\.\.1 MiB"):
        FileSystemCheckpointStorage("file:///chk", 2 << 20)


def test_tuples_are_projected() -> None:
    kind = Types.TUPLE([Types.STRING(), Types.LONG(), Types.BOOLEAN()])
    stream = environment().from_collection([("a", 1, True)], kind)
    projected = stream.project(2, 0)
    assert projected.get_type() == Types.TUPLE([Types.BOOLEAN(), Types.STRING()])
    assert values_of(projected) == [(True, "a")]
    with pytest.raises(DataStreamError, match=r"fields 0\.\.2"):
        stream.project(3)
    with pytest.raises(DataStreamError, match="needs a stream of tuples"):
        stream.map(lambda t: t[1], Types.LONG()).project(0)


class Counting(MapFunction):
    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_metrics_group().add_group("mine").counter("seen")

    def map(self, value: Any) -> Any:
        self.seen.inc()
        return value


def test_users_metrics_are_in_the_jobs_status() -> None:
    env = environment()
    env.from_collection([1, 2, 3], Types.LONG()).map(Counting(), Types.LONG()).name("counted")
    client = env.execute_async()
    client.get_job_execution_result().result(30)
    metrics = [dict(task.metrics) for task in client.get_status().tasks]
    assert [found["counted.mine.seen"] for found in metrics if "counted.mine.seen" in found] == [3]
    with pytest.raises(JobRequestError, match="the job has ended"):
        client.trigger_savepoint("file:///nowhere").result(30)
    assert client.get_accumulators().result(1) == {}


def test_a_field_of_a_row_is_a_message() -> None:
    schema = RowFieldExtractorSchema(1)
    assert schema.serialize(Row("a", b"key")) == b"key"
    assert schema == RowFieldExtractorSchema(1)
    with pytest.raises(TypeError, match="is a str, not bytes"):
        schema.serialize(Row("a", "key"))
    with pytest.raises(TypeError, match="not a row with a field 1"):
        schema.serialize(Row("a"))
    with pytest.raises(ValueError, match="must not be negative"):
        RowFieldExtractorSchema(-1)
