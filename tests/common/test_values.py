"""The small values: watermark strategies, times, job ids and results, restart strategies, schemas, futures."""

import pickle
from concurrent.futures import Future
from typing import Any

import pytest

from runtime.common import (
    ByteArraySchema,
    CompletableFuture,
    Configuration,
    Duration,
    Encoder,
    Instant,
    JobExecutionResult,
    JobID,
    JobStatus,
    RestartStrategies,
    SimpleStringSchema,
    Time,
    TimestampAssigner,
    Types,
    WatermarkGenerator,
    WatermarkStrategy,
    options,
)


class Second(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: Any) -> Any:
        return value[1]


class Punctuated(WatermarkGenerator):
    def on_event(self, event: Any, event_timestamp: Any) -> Any:
        return event_timestamp

    def on_periodic_emit(self) -> Any:
        return None


def test_a_strategy_is_a_description() -> None:
    strategy = (
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_hours(2))
        .with_timestamp_assigner(Second())
        .with_idleness(Duration.of_seconds(5))
        .with_watermark_alignment("g", Duration.of_seconds(1))
    )
    assert (strategy.delay_ms, strategy.idleness_ms) == (7_200_000, 5000)
    assert strategy.timestamp_assigner is not None and strategy.timestamp_assigner(("a", 7), -1) == 7
    assert strategy.alignment is not None and strategy.alignment.update_interval_ms == 1000
    assert pickle.loads(pickle.dumps(strategy)).timestamp_assigner(("a", 7), -1) == 7


def test_strategies_differ_by_their_rule() -> None:
    assert WatermarkStrategy.for_monotonous_timestamps().delay_ms == 0
    assert not WatermarkStrategy.no_watermarks().has_watermarks
    own = WatermarkStrategy.for_generator(Punctuated)
    assert own.has_watermarks
    assert own.generator_factory is not None and own.generator_factory().on_event(None, 3) == 3
    assigner = WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda v, t: v).timestamp_assigner
    assert assigner is not None and assigner(4, 0) == 4


def test_strategies_refuse_what_makes_no_sense() -> None:
    with pytest.raises(ValueError, match="negative"):
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(-1))
    with pytest.raises(ValueError, match="positive"):
        WatermarkStrategy.no_watermarks().with_idleness(Duration(0))
    with pytest.raises(TypeError, match="function"):
        WatermarkStrategy.no_watermarks().with_timestamp_assigner(5)  # type: ignore[arg-type]


def test_times_and_instants() -> None:
    assert Time.hours(1) == Time.minutes(60) == Time.seconds(3600) == Time.milliseconds(3_600_000)
    assert Time.days(1).to_milliseconds() == 86_400_000
    assert Instant.of_epoch_milli(-1) == Instant(-1, 999_000_000)
    assert Instant.of_epoch_milli(-1).to_epoch_milli() == -1
    assert Duration.of_days(1) > Duration.of_hours(23) > Duration.of_minutes(1) > Duration.of_nanos(5)
    assert Duration.of_seconds(1, 5).to_nanos() == 1_000_000_005


def test_job_states_that_are_over() -> None:
    over = {s for s in JobStatus if s.is_globally_terminal_state()}
    assert over == {JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED}
    assert {s for s in JobStatus if s.is_terminal_state()} == over | {JobStatus.SUSPENDED}


def test_job_ids_and_results() -> None:
    job_id = JobID("0" * 32)
    assert (str(job_id), job_id, hash(job_id)) == ("0" * 32, JobID("0" * 32), hash(JobID("0" * 32)))
    with pytest.raises(ValueError, match="32 hex"):
        JobID("x")
    result = JobExecutionResult(job_id, 12, {"n": 5})
    assert (result.get_job_id(), result.get_net_runtime(), result.get_accumulator_result("n")) == (job_id, 12, 5)
    assert result.get_all_accumulator_results() == {"n": 5}
    assert "12 ms" in str(result)


def test_restart_strategies_stand_for_options() -> None:
    fixed = RestartStrategies.fixed_delay_restart(3, 500)
    configuration = Configuration.from_dict(fixed.to_options())
    assert configuration.get(options.RESTART_STRATEGY) == "fixed-delay"
    assert configuration.get(options.RESTART_FIXED_DELAY_ATTEMPTS) == fixed.get_restart_attempts() == 3  # type: ignore[attr-defined]
    assert configuration.get(options.RESTART_FIXED_DELAY) == Duration.of_millis(500)
    rate = RestartStrategies.failure_rate_restart(2, Duration.of_minutes(5), 1000)
    assert Configuration.from_dict(rate.to_options()).get(options.RESTART_FAILURE_RATE_MAX) == 2
    for strategy in (fixed, rate, RestartStrategies.no_restart(), RestartStrategies.fall_back_restart()):
        assert strategy.get_description()


def test_schemas() -> None:
    schema = SimpleStringSchema()
    assert schema.deserialize(schema.serialize("é")) == "é"
    assert schema.get_produced_type() == Types.STRING()
    with pytest.raises(TypeError, match="not a string"):
        schema.serialize(5)
    with pytest.raises(LookupError):
        Encoder.simple_string_encoder("no-such-charset")
    assert ByteArraySchema().serialize(bytearray(b"a")) == b"a"
    with pytest.raises(TypeError, match="not bytes"):
        ByteArraySchema().serialize("a")


def test_futures() -> None:
    source: Future[Any] = Future()
    future = CompletableFuture(source)
    seen: list[Any] = []
    future.add_done_callback(seen.append)
    assert not future.done()
    source.set_result(5)
    assert (future.result(0), future.exception(0), future.cancelled(), seen) == (5, None, False, [future])
    assert not future.cancel()
