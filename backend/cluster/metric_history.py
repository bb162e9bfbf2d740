"""MetricHistory: an hour of metrics of a job or TaskManager every five seconds, and a day every minute, in Redis.

Nothing here is durable. The leader's loop samples each job that it runs, and each TaskManager, and packs the sample; a
thread writes it, so that the loop waits for nothing. Samples that Redis does not take are lost. Keys are the job's own:
the next leader goes on with them, and they expire a day after the last sample. Web processes read them, see
`read_history`. Which numbers are kept is up to `metric_samples` and `taskmanager_samples`.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import redis
from redis.client import NEVER_DECODE

from backend.cluster import bus
from backend.cluster.background import BackgroundWork
from backend.cluster.metric_samples import (
    Curves,
    Cut,
    Layout,
    MalformedSampleError,
    Mean,
    Numbers,
    Row,
    Whole,
    curves,
)
from runtime.core.clock import Clock

logger = logging.getLogger(__name__)

#: shorter: an hour takes more memory than it is worth; longer: short peaks are missed
SAMPLE_INTERVAL_MS: Final = 5_000
MINUTE_MS: Final = 60_000
#: what is kept of the one and of the other
SAMPLES_KEPT_MS: Final = 3_600_000
MINUTES_KEPT_MS: Final = 24 * 3_600_000
#: of one job, without what Redis itself takes: one with wider samples has as many fewer of both
BYTES_KEPT: Final = 16_000_000
_ENTRIES_KEPT: Final = SAMPLES_KEPT_MS // SAMPLE_INTERVAL_MS + MINUTES_KEPT_MS // MINUTE_MS
#: after the last sample of a job
EXPIRY_MS: Final = 24 * 3_600_000
#: samples that wait for a Redis that does not answer: more take memory, fewer lose those of many jobs in one turn
MAX_WAITING: Final = 256
#: at the leader's end, time for what is being written
CLOSE_TIMEOUT_S: Final = 1.0
#: points of a curve: more than a chart has pixels
MAX_POINTS: Final = 1_000
#: bytes, and entries, that Redis reads at once: with more, others wait for it for longer than some milliseconds
BYTES_AT_ONCE: Final = 1 << 20
ENTRIES_AT_ONCE: Final = 300
#: for all of a history; longer: the web process's threads wait for charts
MAX_READ_S: Final = 1.5


@dataclass(frozen=True, slots=True)
class StoredSample:
    """A sample as it is written."""

    key: str
    layouts_key: str
    time_ms: int
    """Epoch ms."""
    middle_ms: int
    """Middle of the times that it is of, epoch ms."""
    kept_ms: int
    layout: Layout
    packed: bytes


class Sampled(Protocol):
    """A job whose numbers are sampled; see JobRunner."""

    @property
    def job(self) -> Any: ...

    def metric_row(self) -> Row:
        """Return its numbers; {}: there are none yet."""


@dataclass(slots=True)
class _Minute:
    """Means of the minute that goes on."""

    number: int
    """Minutes since the epoch."""
    mean: Mean
    last_ms: int
    """Time of its last sample."""
    #: of its samples
    sum_of_times: int = 0
    count: int = 0


class MetricHistory:
    """Samples the jobs of one leader. Leader's loop only.

    Args:
        add: has a sample written.
        clock: for the times of samples.
    """

    def __init__(self, add: Callable[[StoredSample], None], clock: Clock) -> None:
        self._add = add
        self._clock = clock
        #: by job
        self._minutes: dict[str, _Minute] = {}
        self._has_failed = False

    def sample(self, runner: Sampled) -> None:
        """Sample a job; whatever fails, it runs on."""
        try:
            self.add(str(runner.job.id), runner.metric_row())
        except Exception:
            # what is only shown must not end a job
            if not self._has_failed:
                logger.exception("job %s cannot be sampled; it runs on", runner.job.id)
            self._has_failed = True

    def add(self, job_id: str, row: Row) -> None:
        """Add numbers of now to the history of a job, or of whatever has such an id; {}: there are none yet."""
        if row:
            self._take(job_id, row, self._clock.now_ms())

    def forget(self, job_id: str) -> None:
        """Have the minute of what has ended written as far as it is known."""
        minute = self._minutes.pop(job_id, None)
        if minute is not None:
            self._add_minute(job_id, minute)

    def _take(self, job_id: str, row: Row, now: int) -> None:
        number = now // MINUTE_MS
        minute = self._minutes.get(job_id)
        if minute is None or minute.number != number or minute.mean.layout.columns.keys() != row.keys():
            layout = Layout.of(row)
            if minute is not None:
                self._add_minute(job_id, minute)
                # keeps what it has computed
                layout = minute.mean.layout if minute.mean.layout == layout else layout
            minute = self._minutes[job_id] = _Minute(number, Mean(layout), now)
        layout = minute.mean.layout
        numbers = layout.numbers(row)
        minute.mean.add(numbers)
        minute.last_ms = now
        minute.sum_of_times += now
        minute.count += 1
        self._store(bus.HISTORY_KEY, job_id, now, now, SAMPLES_KEPT_MS, layout, numbers)

    def _add_minute(self, job_id: str, minute: _Minute) -> None:
        # at the time of its last sample: what comes after that is in no minute yet
        mean, middle = minute.mean, minute.sum_of_times // minute.count
        self._store(bus.MINUTES_KEY, job_id, minute.last_ms, middle, MINUTES_KEPT_MS, mean.layout, mean.numbers())

    def _store(
        self, key: str, job_id: str, time_ms: int, middle_ms: int, kept_ms: int, layout: Layout, numbers: Numbers
    ) -> None:
        keys = key.format(job_id), bus.LAYOUTS_KEY.format(job_id)
        kept_ms = min(kept_ms, kept_ms * BYTES_KEPT // (_ENTRIES_KEPT * layout.size))
        self._add(StoredSample(*keys, time_ms, middle_ms, kept_ms, layout, layout.pack(numbers)))


#: the epoch is only read: what is shown fences off nobody. A layout that is not known is asked for by 0. A time that is
#: not later than the last sample's, because another leader's clock is behind, follows it; one that is far behind says
#: that those after it were in the future: they go, by a copy of the others, since a stream takes no id before one that
#: it has had. Trimmed to whole nodes of the stream, which costs the server nothing
_ADD = """
local known = redis.call('GET', KEYS[1])
if known and tonumber(known) > tonumber(ARGV[1]) then return -1 end
if redis.call('HEXISTS', KEYS[3], ARGV[5]) == 0 then
  if ARGV[7] == '' then return 0 end
  redis.call('HSET', KEYS[3], ARGV[5], ARGV[7])
end
local time, sequence = tonumber(ARGV[2]), 0
local oldest = string.format('%.0f', time - tonumber(ARGV[3]))
local function place(entry) return string.match(entry[1], '(%d+)-(%d+)') end
local last = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1]
if last and tonumber((place(last))) > time + tonumber(ARGV[8]) then
  local earlier = redis.call('XRANGE', KEYS[2], oldest, ARGV[2])
  redis.call('DEL', KEYS[2])
  for _, entry in ipairs(earlier) do redis.call('XADD', KEYS[2], entry[1], unpack(entry[2])) end
  last = earlier[#earlier]
end
if last then
  local at, number = place(last)
  if tonumber(at) >= time then
    time, sequence = tonumber(at), tonumber(number) + 1
  end
end
local id = string.format('%.0f-%.0f', time, sequence)
redis.call('XADD', KEYS[2], 'MINID', '~', oldest, id, 'layout', ARGV[5], 'data', ARGV[6], 'before', ARGV[9])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
redis.call('PEXPIRE', KEYS[3], ARGV[4])
return 1"""
_LAYOUT_MISSING: Final = 0


class SampleWriter:
    """Writes samples of one leader, in order, on a thread of its own. Used by the leader's loop, which never waits.

    Args:
        epoch: of the leader; a later one's samples are not disturbed.
    """

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch
        self._work = BackgroundWork("metric history", max_threads=1)
        self._last: Future[None] | None = None
        #: written by the loop, and by the thread
        self._added, self._done = 0, 0
        self._is_losing = False

    def add(self, sample: StoredSample) -> None:
        """Have a sample written, unless too many wait."""
        if self._added - self._done >= MAX_WAITING:
            self._lose("Redis is too slow")
            return
        self._added += 1
        try:
            self._last = self._work.submit(lambda: self._write(sample))
        except RuntimeError as error:
            self._added -= 1
            self._lose(str(error))

    def close(self) -> None:
        """Wait a moment for what is to be written; begin nothing more."""
        if self._last is not None:
            self._work.wait(self._last, CLOSE_TIMEOUT_S)
        self._work.close()

    def _write(self, sample: StoredSample) -> None:
        try:
            # the text of a layout is larger than a sample
            if self._eval(sample, "") == _LAYOUT_MISSING:
                self._eval(sample, sample.layout.text)
        except Exception as error:
            # nobody asks for the outcome
            self._lose(str(error) or repr(error))
        else:
            if self._is_losing:
                logger.info("the history of metrics goes on")
            self._is_losing = False
        finally:
            self._done += 1

    def _eval(self, sample: StoredSample, layout: str) -> int:
        keys = bus.EPOCH_KEY, sample.key, sample.layouts_key
        given = sample.time_ms, sample.kept_ms, EXPIRY_MS, sample.layout.id, sample.packed, layout, MINUTE_MS
        answer: Any = bus.client().eval(_ADD, len(keys), *keys, self._epoch, *given, sample.time_ms - sample.middle_ms)
        return int(answer)

    def _lose(self, why: str) -> None:
        if not self._is_losing:
            logger.warning("samples of metrics are lost until Redis takes them: %s", why)
        self._is_losing = True


# --- readers ----------------------------------------------------------------------------------------------------------


#: the last id, empty if there are no more, and for each layout that is given the records of its samples: time, middle,
#: then the ranges that are wanted. What is not of such a layout, or is damaged, is left out
_READ = """
local cuts, known = cjson.decode(ARGV[4]), {}
for _, cut in ipairs(cuts) do
  known[cut.id] = cut
  cut.records = {}
end
local entries = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[2], 'COUNT', ARGV[3])
for _, entry in ipairs(entries) do
  local fields = entry[2]
  local cut = fields[1] == 'layout' and fields[3] == 'data' and known[fields[2]]
  if cut and #fields[4] == cut.size then
    local records = cut.records
    local time = tonumber(string.match(entry[1], '%d+'))
    local before = fields[5] == 'before' and tonumber(fields[6]) or 0
    if not (math.abs(before) <= tonumber(ARGV[5])) then before = 0 end
    records[#records + 1] = struct.pack('<dd', time, time - before)
    for _, range in ipairs(cut.ranges) do
      records[#records + 1] = string.sub(fields[4], range[1] + 1, range[2])
    end
  end
end
local found = {#entries == tonumber(ARGV[3]) and entries[#entries][1] or ''}
for number, cut in ipairs(cuts) do found[number + 1] = table.concat(cut.records) end
return found"""


@dataclass(frozen=True, slots=True)
class _Samples:
    """Samples of one stream, in the order of their middles."""

    times: Whole
    middles: Whole
    rows: Numbers
    interval_ms: int


def step_for(begin: int, end: int, step: int | None) -> int:
    """Return the step of a curve: the one that was asked for, unless it gives too many points; ms."""
    fewest = -(-(end - begin) // MAX_POINTS)
    return max(SAMPLE_INTERVAL_MS if step is None else step, fewest, 1)


def read_history(job_id: str, names: Sequence[str], begin: int, end: int, step: int) -> Curves:
    """Return the history of series of a job.

    What is older than an hour is averaged over minutes, and so is everything if the step is a minute or more, except
    for the minute that goes on.

    Args:
        job_id: the job.
        names: of the series.
        begin: epoch ms.
        end: epoch ms, inclusive.
        step: over which samples are averaged, ms; see `step_for`.

    Raises:
        redis.RedisError: Redis does not answer, or it takes too long.
    """
    deadline = time.monotonic() + MAX_READ_S
    with bus.reader().connected() as connection:
        stored: Any = connection.hgetall(bus.LAYOUTS_KEY.format(job_id))
    cuts = _cuts(stored, names)

    def read(key: str, interval_ms: int, first: int, last: int) -> _Samples:
        return _read(key.format(job_id), cuts, len(names), interval_ms, first, last, deadline)

    if step < MINUTE_MS:
        fine = read(bus.HISTORY_KEY, SAMPLE_INTERVAL_MS, begin, end)
        since = int(fine.times.min()) - 1 if len(fine.times) else end
        coarse = read(bus.MINUTES_KEY, MINUTE_MS, begin, since if since - begin >= MINUTE_MS else begin - 1)
    else:
        coarse = read(bus.MINUTES_KEY, MINUTE_MS, begin, end)
        since = int(coarse.times.max()) + 1 if len(coarse.times) else begin
        fine = read(bus.HISTORY_KEY, SAMPLE_INTERVAL_MS, since, end)
    return curves(
        np.concatenate((coarse.middles, fine.middles)),
        np.concatenate((coarse.rows, fine.rows)),
        np.repeat([coarse.interval_ms, fine.interval_ms], [len(coarse.times), len(fine.times)]),
        step,
    )


def _cuts(stored: Mapping[str, str], names: Sequence[str]) -> list[Cut]:
    """Return what of the samples of each layout is wanted."""
    cuts: list[Cut] = []
    for layout_id, text in stored.items():
        try:
            layout = Layout.from_text(text)
        except MalformedSampleError as error:
            logger.warning("layout %r of a history cannot be read: %s", layout_id, error)
            continue
        cuts.append(layout.cut(names))
    return cuts


def _read(
    key: str, cuts: Sequence[Cut], width: int, interval_ms: int, begin: int, end: int, deadline: float
) -> _Samples:
    nothing: Whole = np.empty(0, dtype=np.int64)
    found_samples = [(nothing, nothing, np.empty((0, width)))]
    if cuts and begin <= end:
        wanted = [{"id": cut.layout.id, "size": cut.layout.size, "ranges": cut.ranges} for cut in cuts]
        largest = max(cut.layout.size for cut in cuts)
        count = min(max(BYTES_AT_ONCE // max(largest, 1), 1), ENTRIES_AT_ONCE)
        first: bytes | int = begin
        while True:
            if time.monotonic() > deadline:
                raise redis.TimeoutError(f"the history has not been read within {MAX_READ_S} s")
            given = first, end, count, json.dumps(wanted), MINUTE_MS
            with bus.reader().connected() as connection:
                execute: Any = connection.execute_command
                last, *found = execute("EVAL", _READ, 1, key, *given, **{NEVER_DECODE: True})
            for cut, records in zip(cuts, found, strict=True):
                found_samples.append(cut.rows(records))
            if not last:
                break
            first = b"(" + last
    times = np.concatenate([each[0] for each in found_samples])
    middles = np.concatenate([each[1] for each in found_samples])
    rows = np.concatenate([each[2] for each in found_samples])
    # layouts may take turns while leaders do
    order = np.argsort(middles, kind="stable")
    return _Samples(times[order], middles[order], rows[order], interval_ms)
