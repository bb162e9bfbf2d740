"""Generated programs, whose records come out of order, give on Spark in every execution what a stream gives."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.testing import BATCH_ON_SPARK, CONTINUOUS_ON_SPARK, MICRO_BATCH_ON_SPARK, JobMode, run_job
from tests.datastream.running import ROW_BY_ROW
from tests.datastream.test_batch import events, program, steps
from tests.execution.test_spark_micro_batch import NO_RESTART, SHORT, TIMEOUT_S
from tests.job_runs import record_run

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(7_200)]

MODES = {
    "continuous": (CONTINUOUS_ON_SPARK, {}),
    "micro-batch": (MICRO_BATCH_ON_SPARK, SHORT),
    "batch, blocking": (BATCH_ON_SPARK, {"execution.batch-shuffle-mode": "all_exchanges_blocking"}),
    "batch, pipelined": (BATCH_ON_SPARK, {"execution.batch-shuffle-mode": "all_exchanges_pipelined"}),
}


@pytest.mark.parametrize(("mode", "options"), MODES.values(), ids=MODES)
def test_generated_programs_deliver_what_a_stream_delivers(mode: JobMode, options: dict[str, str]) -> None:
    @settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(
        values=events,
        chosen=st.lists(steps, min_size=1, max_size=3),
        max_rows=st.sampled_from([10, 25, 1_000]),
    )
    def check(values: list[tuple[str, int]], chosen: list[str], max_rows: int) -> None:
        build = program(values, chosen)
        streamed = run_job(build, parallelism=2, options=ROW_BY_ROW).values
        settings = {**ROW_BY_ROW, **NO_RESTART, **options, "execution.micro-batch.max-rows": str(max_rows)}
        on_spark = run_job(build, parallelism=2, mode=mode, options=settings, timeout_s=TIMEOUT_S).values
        assert sorted(on_spark) == sorted(streamed)
        record_run("spark local")

    check()
