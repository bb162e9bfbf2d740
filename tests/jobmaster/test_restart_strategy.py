from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.common.config_options import ConfigurationError
from runtime.common.configuration import Configuration
from runtime.jobmaster.options import JobMasterOptions
from runtime.jobmaster.restart_strategy import (
    Backoff,
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    RestartStrategy,
    create_restart_strategy,
    describe_restart_strategy,
)


def middle() -> float:
    """A random number without effect: jitter 0."""
    return 0.5


def created(**options: str) -> RestartStrategy:
    keys = {f"restart-strategy.{key}": value for key, value in options.items()}
    return create_restart_strategy(Configuration.from_dict(keys), middle)


def delays(strategy: RestartStrategy, *failures_ms: float) -> list[float | None]:
    return [strategy.on_failure(now_ms) for now_ms in failures_ms]


def test_no_restart() -> None:
    assert delays(NoRestart(), 0) == [None]


def test_fixed_delay_restarts_a_number_of_times() -> None:
    assert delays(FixedDelay(2, 500), 0, 1, 2, 10**9) == [500, 500, None, None]


def test_exponential_delay_grows_up_to_its_maximum() -> None:
    strategy = ExponentialDelay(Backoff(1_000, 5_000, 2.0), middle)
    assert delays(strategy, *range(0, 50_000, 10_000)) == [1_000, 2_000, 4_000, 5_000, 5_000]


def test_exponential_delay_starts_again_after_a_long_run() -> None:
    strategy = ExponentialDelay(Backoff(1_000, 60_000, 2.0, reset_after_ms=100_000), middle)
    assert delays(strategy, 0, 10_000, 12_000 + 99_999, 500_000) == [1_000, 2_000, 4_000, 1_000]


def test_exponential_delay_gives_up_after_its_attempts() -> None:
    strategy = ExponentialDelay(Backoff(attempts=1, reset_after_ms=100_000), middle)
    assert delays(strategy, 0, 10_000, 20_000, 200_000) == [1_000, None, None, 1_000]


@given(st.floats(0, 1, exclude_max=True), st.integers(0, 2_000))
def test_jitter_stays_within_its_part_and_the_limits(random: float, failures: int) -> None:
    strategy = ExponentialDelay(Backoff(1_000, 60_000, 1.5, jitter=0.1), lambda: random)
    last = [strategy.on_failure(i) for i in range(failures + 1)][-1]
    plain = min(60_000.0, 1_000 * 1.5 ** min(failures, 20))
    assert last is not None
    assert max(1_000, plain * 0.9) - 1e-6 <= last <= min(60_000, plain * 1.1) + 1e-6


def test_failure_rate_restarts_while_failures_are_rare() -> None:
    strategy = FailureRate(2, 60_000, 1_000)
    assert delays(strategy, 0, 30_000, 60_001, 61_000) == [1_000, 1_000, 1_000, None]


def test_the_strategy_is_chosen_by_configuration() -> None:
    assert isinstance(created(), NoRestart)
    assert all(isinstance(created(type=t), NoRestart) for t in ("none", "off", "disable"))
    fixed = created(**{"type": "fixed-delay", "fixed-delay.attempts": "2", "fixed-delay.delay": "3 s"})
    assert delays(fixed, 0, 1, 2) == [3_000, 3_000, None]
    assert delays(created(type="fixeddelay"), 0, 1) == [1_000, None]
    exponential = created(**{"type": "exponential-delay", "exponential-delay.initial-backoff": "2 s"})
    assert delays(exponential, 0, 1) == [2_000, 3_000]
    rate = created(**{"type": "failure-rate", "failure-rate.max-failures-per-interval": "2"})
    assert delays(rate, 0, 1, 2) == [1_000, 1_000, None]
    with pytest.raises(ConfigurationError, match="restart-strategy"):
        created(type="sometimes")


def test_the_machines_options_come_from_the_jobs_configuration() -> None:
    assert JobMasterOptions.from_configuration(Configuration()) == JobMasterOptions(
        300_000, 1_000, 5_000, 180_000, 3_000
    )
    given_options = {"heartbeat.interval": "100 ms", "heartbeat.timeout": "1 s", "task.cancellation.timeout": "1 min"}
    options = JobMasterOptions.from_configuration(Configuration.from_dict(given_options))
    assert options == JobMasterOptions(300_000, 100, 1_000, 60_000, 3_000)
    with pytest.raises(ConfigurationError, match=r"heartbeat\.timeout"):
        JobMasterOptions.from_configuration(Configuration.from_dict({"heartbeat.timeout": "1 s"}))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"restart-strategy.type": "off"}, "Restart deactivated."),
        ({"restart-strategy.type": "fixed-delay"}, "Restart with fixed delay (PT1S). #1 restart attempts."),
        (
            {"restart-strategy.type": "exponential-delay"},
            "Restart with exponential delay: starting at PT1S, increasing by 1.500000, with maximum PT1M. "
            "Delay resets after PT1H with jitter 0.100000",
        ),
        (
            {"restart-strategy.type": "failure-rate", "restart-strategy.failure-rate.delay": "90500 ms"},
            "Failure rate restart with maximum of 1 failures within interval PT1M and fixed delay PT1M30.5S.",
        ),
        ({}, "Restart deactivated."),
    ],
)
def test_strategies_are_described_in_flinks_words(options: dict[str, str], sentence: str) -> None:
    assert describe_restart_strategy(Configuration.from_dict(options)) == sentence


def test_the_default_of_a_job_with_checkpoints_is_described_as_what_it_is() -> None:
    configuration = Configuration.from_dict({"execution.checkpointing.interval": "1 s"})
    assert describe_restart_strategy(configuration).startswith("Restart with exponential delay: starting at PT1S")
