"""The history of metrics over a real Redis: what is kept, for how long, at which price; nothing waits for Redis."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import cycle
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from backend.cluster import bus, metric_history
from backend.cluster.metric_history import (
    BYTES_KEPT,
    EXPIRY_MS,
    MAX_POINTS,
    MAX_WAITING,
    MINUTE_MS,
    SAMPLE_INTERVAL_MS,
    MetricHistory,
    SampleWriter,
    StoredSample,
    read_history,
    step_for,
)
from backend.cluster.metric_samples import (
    EDGE_METRICS,
    VERTEX_METRICS,
    Curves,
    Row,
    edge_series,
    sample_row,
    vertex_series,
)
from runtime.checkpoint.settings import CheckpointSettings
from runtime.checkpoint.statistics import CheckpointsSnapshot
from runtime.testing.clock import ManualClock
from tests.live.live_jobs import RunningJob
from tests.support.waiting import wait_until

START = 1_700_000_040_000
HOUR, DAY = 3_600_000, 86_400_000
JOB = "a" * 32
BUSY = "v.x.busy"


class Led:
    """A leader that samples a job whose numbers the test gives."""

    def __init__(self, epoch: int, clock: ManualClock) -> None:
        self.writer = SampleWriter(epoch)
        self.clock = clock
        self.history = MetricHistory(self.writer.add, clock)
        self.row: Row = {}

    def sample(self, *rows: Row) -> None:
        """Take samples, five seconds after one another."""
        for self.row in rows:
            self.clock.advance(SAMPLE_INTERVAL_MS)
            self.history.sample(SimpleNamespace(job=SimpleNamespace(id=JOB), metric_row=lambda: self.row))

    def close(self) -> None:
        self.writer.close()
        wait_until(lambda: self.writer._work.is_idle, 10, "the end of the writer")

    def settle(self) -> None:
        wait_until(lambda: self.writer._added == self.writer._done, 20, "writing samples")


@pytest.fixture
def leader(live_redis: str) -> Iterator[Callable[[int], Led]]:
    """Makes leaders of one clock, by epoch."""
    clock, made = ManualClock(START), list[Led]()

    def make(epoch: int) -> Led:
        made.append(Led(epoch, clock))
        return made[-1]

    yield make
    for led in made:
        led.close()


def keys() -> list[str]:
    return [key.format(JOB) for key in (bus.HISTORY_KEY, bus.MINUTES_KEY, bus.LAYOUTS_KEY)]


def read(begin: int, end: int, step: int | None = None, *names: str) -> Curves:
    return read_history(JOB, names or [BUSY], begin, end, step_for(begin, end, step))


def test_samples_are_read_back_with_their_times(leader: Any) -> None:
    led = leader(1)
    led.sample({BUSY: 1.0, "v.x.watermark": START}, {BUSY: None, "v.x.watermark": None}, {BUSY: 2.5})
    led.settle()
    drawn = read(START, START + 60_000, None, BUSY, "v.x.watermark", "v.y.busy")
    assert drawn.times == [START + 5_000, START + 10_000, START + 15_000]
    assert drawn.series == [[1.0, None, 2.5], [START, None, None], [None, None, None]]
    assert read(START + 6_000, START + 10_000).times == [START + 10_000]
    assert read(START + 60_000, START + 90_000).times == []


def test_a_minute_is_averaged_and_the_one_that_goes_on_is_read_from_its_samples(leader: Any) -> None:
    led = leader(1)
    led.sample(*({BUSY: float(n % 12)} for n in range(1, 27)))
    led.settle()
    # it begins at a full minute
    minutes: Any = bus.client().xrange(bus.MINUTES_KEY.format(JOB))
    assert [entry[0] for entry in minutes] == [f"{START + 55_000}-0", f"{START + 115_000}-0"]
    drawn = read(START, START + 10 * MINUTE_MS, MINUTE_MS)
    # a minute is drawn at its middle
    assert drawn.times == [START + 30_000, START + 87_500, START + 125_000]
    assert drawn.series == [[6.0, 5.5, 1.0]]


def test_the_last_minute_of_a_job_that_has_ended_is_kept(leader: Any) -> None:
    led = leader(1)
    led.sample({BUSY: 1.0}, {BUSY: 3.0})
    led.history.forget(JOB)
    led.history.forget(JOB)
    led.settle()
    assert bus.client().xlen(bus.MINUTES_KEY.format(JOB)) == 1
    bus.client().delete(bus.HISTORY_KEY.format(JOB))
    assert read(START, START + MINUTE_MS, MINUTE_MS).series == [[2.0]]


def test_what_is_older_than_an_hour_is_read_from_minutes(leader: Any) -> None:
    led = leader(1)
    led.sample({BUSY: 8.0})
    led.clock.advance(HOUR)
    led.sample({BUSY: 1.0}, {BUSY: 1.0})
    led.settle()
    bus.client().xdel(bus.HISTORY_KEY.format(JOB), f"{START + 5_000}-0")
    drawn = read(START, START + HOUR + MINUTE_MS, 5_000)
    assert (drawn.times[0], drawn.times[-1]) == (START + 5_000, START + HOUR + 15_000)
    # nothing is drawn over the hour in between
    assert drawn.series == [[8.0, None, 1.0, 1.0]]


def test_the_next_leader_goes_on_and_the_former_one_writes_no_more(leader: Any) -> None:
    old, new = leader(1), leader(2)
    old.sample({BUSY: 1.0})
    old.settle()
    bus.client().set(bus.EPOCH_KEY, 2)
    new.sample({BUSY: 2.0})
    new.settle()
    old.sample({BUSY: 9.0})
    old.settle()
    # it reports other numbers: another release
    new.sample({BUSY: 3.0, "v.x.idle": 5.0})
    new.settle()
    drawn = read(START, START + MINUTE_MS, None, BUSY, "v.x.idle")
    assert drawn.series == [[1.0, 2.0, 3.0], [None, None, 5.0]]
    assert bus.client().get(bus.EPOCH_KEY) == "2"
    assert not old.writer._is_losing


def test_a_clock_that_is_a_little_behind_costs_no_sample_and_one_that_was_ahead_no_hours(leader: Any) -> None:
    led = leader(1)
    led.sample({BUSY: 1.0})
    led.clock.jump(-20_000)
    led.sample({BUSY: 2.0}, {BUSY: 4.0})
    led.settle()
    drawn = read(START, START + MINUTE_MS, 1_000)
    assert (drawn.times, drawn.series) == ([START + 5_000], [[2.333]])
    led.clock.jump(-2 * HOUR)
    led.sample({BUSY: 7.0}, {BUSY: 7.0})
    led.settle()
    assert read(START - 2 * HOUR, START - HOUR).series == [[7.0, 7.0]]


def test_a_clock_that_is_set_back_by_minutes_costs_only_what_was_later(leader: Any) -> None:
    led = leader(1)
    led.sample(*({BUSY: 1.0} for _ in range(60)))
    led.clock.jump(-152_000)
    led.sample({BUSY: 2.0}, {BUSY: 2.0})
    led.settle()
    drawn = read(START, START + 10 * MINUTE_MS, 1_000)
    assert drawn.times == [*range(START + 5_000, START + 151_000, 5_000), START + 153_000, START + 158_000]
    assert drawn.series == [[1.0] * 30 + [2.0] * 2]


def test_an_emptied_redis_gets_the_layout_again(leader: Any) -> None:
    led = leader(1)
    led.sample({BUSY: 1.0})
    led.settle()
    bus.client().flushall()
    led.sample({BUSY: 2.0})
    led.settle()
    assert read(START, START + MINUTE_MS).series == [[2.0]]


def test_what_others_have_written_there_is_skipped(leader: Any) -> None:
    led = leader(1)
    led.sample({BUSY: 1.0})
    led.settle()
    [layout] = bus.client().hkeys(bus.LAYOUTS_KEY.format(JOB))
    bus.client().hset(bus.LAYOUTS_KEY.format(JOB), mapping={"other": "[", "forged": '{"wide": [], "narrow": ["a"]}'})
    damaged: list[Any] = [
        {"layout": layout, "data": b"\xff\x00"},
        {"layout": layout},
        {"layout": "other", "data": b""},
        {"layout": b"\xff\xfe", "data": b"\xff"},
        {"layout": "forged", "data": b"1234"},
        {b"\xff": b"\xff"},
    ]
    for number, fields in enumerate(damaged):
        bus.client().xadd(bus.HISTORY_KEY.format(JOB), fields, id=f"{START + 6_000}-{number}")
    led.sample({BUSY: 3.0})
    led.settle()
    assert read(START, START + MINUTE_MS).series == [[1.0, 3.0]]


def reads_of_redis() -> int:
    used: Any = bus.client().info("commandstats")
    return int(used.get("cmdstat_xrange", {"calls": 0})["calls"])


def test_large_samples_are_read_a_few_at_a_time(leader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    led = leader(1)
    led.sample(*({BUSY: float(n), "v.x.idle": 0.0} for n in range(26)))
    led.settle()
    # two samples of two columns
    monkeypatch.setattr(metric_history, "BYTES_AT_ONCE", 23)
    before = reads_of_redis()
    assert read(START, START + HOUR).series == [[float(n) for n in range(26)]]
    assert reads_of_redis() - before == 14
    monkeypatch.setattr(metric_history, "BYTES_AT_ONCE", 1)
    assert len(read(START, START + HOUR).times) == 26
    assert reads_of_redis() - before == 14 + 27


def test_a_history_that_takes_too_long_is_not_read_to_its_end(leader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    led = leader(1)
    led.sample({BUSY: 1.0})
    led.settle()
    monkeypatch.setattr(metric_history, "MAX_READ_S", 0.0)
    with pytest.raises(redis.TimeoutError, match="within 0"):
        read(START, START + HOUR)


def test_all_is_dropped_a_day_after_the_last_sample(leader: Any) -> None:
    led = leader(1)
    led.sample(*({BUSY: 1.0} for _ in range(13)))
    led.settle()
    for key in keys():
        assert EXPIRY_MS - 60_000 < bus.client().pttl(key) <= EXPIRY_MS


# --- Redis that takes nothing -----------------------------------------------------------------------------------------


def timed(led: Led, samples: int) -> float:
    """Take samples; return the longest time, seconds, that one has taken the loop."""
    longest = 0.0
    for _ in range(samples):
        begun = time.monotonic()
        led.sample({BUSY: 1.0})
        longest = max(longest, time.monotonic() - begun)
    return longest


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelname != "INFO" and r.name.endswith("metric_history")]


def test_a_full_redis_costs_samples_and_one_warning(leader: Any, caplog: pytest.LogCaptureFixture) -> None:
    led = leader(1)
    bus.client().config_set("maxmemory", 1)
    try:
        timed(led, 30)
        led.settle()
    finally:
        bus.client().config_set("maxmemory", 0)
    [warning] = warnings(caplog)
    assert "samples of metrics are lost until Redis takes them" in warning
    led.sample({BUSY: 4.0})
    led.settle()
    # the minutes that were lost with them are lost; then it goes on
    assert read(START, START + HOUR).series == [[4.0]]
    bus.client().config_set("maxmemory", 1)
    try:
        timed(led, 1)
        led.settle()
    finally:
        bus.client().config_set("maxmemory", 0)
    assert len(warnings(caplog)) == 2


def test_a_sample_that_cannot_be_written_costs_itself_and_a_warning(
    leader: Any, caplog: pytest.LogCaptureFixture
) -> None:
    led = leader(1)
    written: list[StoredSample] = []
    MetricHistory(written.append, led.clock).sample(
        SimpleNamespace(job=SimpleNamespace(id=JOB), metric_row=lambda: {BUSY: 1.0})
    )
    broken: Any = None
    led.writer.add(replace(written[0], layout=broken))
    led.settle()
    [warning] = warnings(caplog)
    assert "samples of metrics are lost" in warning
    led.sample({BUSY: 2.0})
    led.settle()
    assert read(START, START + MINUTE_MS).series == [[2.0]]


def test_a_redis_that_is_not_there_costs_samples_and_one_warning(
    leader: Any, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    led = leader(1)
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    bus.disconnect()
    assert timed(led, 3) < 0.5
    led.settle()
    assert len(warnings(caplog)) == 1


def test_nothing_waits_for_a_frozen_redis_and_only_so_many_samples_wait(
    leader: Any, caplog: pytest.LogCaptureFixture
) -> None:
    led = leader(1)
    led.sample({BUSY: 1.0})
    led.settle()
    pid = int(bus.client().info("server")["process_id"])
    os.kill(pid, signal.SIGSTOP)
    try:
        assert timed(led, MAX_WAITING + 50) < 2.0
        assert led.writer._added - led.writer._done <= MAX_WAITING
    finally:
        os.kill(pid, signal.SIGCONT)
    led.settle()
    assert len(warnings(caplog)) == 1
    # those that have waited are there
    assert len(read(START, START + HOUR).times) > 100


def test_a_job_whose_numbers_cannot_be_made_runs_on(caplog: pytest.LogCaptureFixture) -> None:
    history = MetricHistory(lambda sample: None, ManualClock(START))

    def broken() -> Row:
        raise KeyError("vertices")

    for _ in range(3):
        history.sample(SimpleNamespace(job=SimpleNamespace(id=JOB), metric_row=broken))
    assert len(warnings(caplog)) == 1
    # one that has no document yet has no numbers
    history.sample(SimpleNamespace(job=SimpleNamespace(id=JOB), metric_row=dict))
    assert history._minutes == {}


# --- the price --------------------------------------------------------------------------------------------------------


def rows_of_a_large_job(vertices: int = 50, edges: int = 60) -> Iterator[Row]:
    """Some rows over and over."""
    random = Random(1)
    names = [vertex_series(f"{n:032x}", metric) for n in range(vertices) for metric in VERTEX_METRICS]
    names += [edge_series(str(n), metric) for n in range(edges) for metric in EDGE_METRICS]
    return cycle([{name: random.uniform(0, 1e12) for name in names} for _ in range(3)])


@pytest.fixture
def full(leader: Any) -> Led:
    """A job that has run for a day and an hour, as far as Redis has it."""
    led: Led = leader(1)
    rows = rows_of_a_large_job()
    written: list[StoredSample] = []
    led.history = MetricHistory(written.append, led.clock)
    for _ in range(DAY // MINUTE_MS):
        led.clock.advance(MINUTE_MS - SAMPLE_INTERVAL_MS)
        led.sample(next(rows))
    for _ in range(HOUR // SAMPLE_INTERVAL_MS):
        led.sample(next(rows))
    for number, sample in enumerate(written):
        led.writer.add(sample)
        if number % 200 == 199:
            led.settle()
    led.settle()
    return led


def test_an_hour_of_a_large_job_is_small_and_read_at_once(full: Led) -> None:
    history, minutes, layouts = (bus.client().memory_usage(key, samples=0) or 0 for key in keys())
    assert history + layouts <= 4_500_000
    assert history + minutes + layouts <= 13_000_000
    end = full.clock.now_ms()
    # no more than a node of the stream beyond what is kept
    assert 720 <= bus.client().xlen(bus.HISTORY_KEY.format(JOB)) <= 740
    assert 1_440 <= bus.client().xlen(bus.MINUTES_KEY.format(JOB)) <= 1_460
    names = [vertex_series(f"{0:032x}", metric) for metric in VERTEX_METRICS[:8]]
    for window, points in ((10 * MINUTE_MS, 121), (HOUR, 721), (DAY, 1_001)):
        drawn = read(end - window, end, None, *names)
        assert points * 0.9 <= len(drawn.times) <= min(points, MAX_POINTS + 1)
        assert all(value is not None for series in drawn.series for value in series)
        assert p95_ms(partial(read, end - window, end, None, *names)) <= 100


def test_a_very_large_job_keeps_less_and_takes_no_more(leader: Any) -> None:
    led = leader(1)
    rows = rows_of_a_large_job(2_000, 0)
    for _ in range(60):
        led.sample(next(rows))
        led.settle()
    history = bus.HISTORY_KEY.format(JOB)
    # a third of the budget is for these
    assert 40 <= bus.client().xlen(history) <= 50
    assert (bus.client().memory_usage(history, samples=0) or 0) <= BYTES_KEPT / 2
    end = led.clock.now_ms()
    assert len(read(end - 3 * MINUTE_MS, end, None, vertex_series(f"{0:032x}", "busy")).times) >= 36


def p95_ms(call: Callable[[], object]) -> float:
    """Return the time that 95 % of calls take at most, ms of the processor here and in Redis."""
    took = []
    for _ in range(20):
        begun = time.process_time() + redis_seconds()
        call()
        took.append((time.process_time() + redis_seconds() - begun) * 1000)
    return sorted(took)[18]


def redis_seconds() -> float:
    used = bus.client().info("cpu")
    return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])


def test_a_sample_of_a_large_job_costs_the_loop_little() -> None:
    job = RunningJob(50, 8)
    document, nothing = job.running(10_000, Random(1)), CheckpointsSnapshot(CheckpointSettings())
    runner = SimpleNamespace(
        job=SimpleNamespace(id=JOB), metric_row=lambda: sample_row(document, job._live.figures, nothing)
    )
    history, clock = list[StoredSample](), ManualClock(START)
    sampled = MetricHistory(history.append, clock)
    took = []
    for _ in range(20):
        begun = time.process_time()
        sampled.sample(runner)
        took.append(time.process_time() - begun)
    # the document takes 20 times as long, ten times as often
    assert sorted(took)[10] < 0.01
    assert len(history) == 20
