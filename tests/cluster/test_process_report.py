"""The report of a process, and its newest log lines in Redis."""

from __future__ import annotations

import errno
import gc
import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from backend.cluster import bus
from backend.cluster.process_log import MAX_RECORD_CHARS, PART_CHARS, PARTS, RecentLog, read_process_log
from backend.cluster.process_report import Collections, CpuLoad, ProcessReporter, read_process, thread_dumps
from tests.cluster.redis_fixture import running_redis
from tests.support.waiting import wait_until

PROCESS = "host:1"
logger = logging.getLogger("backend.test")


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_redis(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture(autouse=True)
def empty(settings: Settings, redis_url: str, tmp_path: Path) -> Iterator[None]:
    settings.REDIS_URL, settings.TIDEMARK_HOME = redis_url, tmp_path
    bus.disconnect()
    bus.client().flushall()
    yield
    bus.disconnect()


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("backend.test", logging.INFO, "x.py", 1, text, None, None)


def written(log: RecentLog, *texts: str) -> str:
    """Log lines, and return the whole log as it is read then."""
    for text in texts:
        log.handle(record(text))
    log.write()
    return read_process_log(PROCESS)


def test_lines_are_appended() -> None:
    log = RecentLog(PROCESS)
    written(log, "first")
    assert [line[-6:].strip() for line in written(log, "second").splitlines()] == ["first", "second"]
    assert written(log).count("\n") == 2
    assert 0 < bus.client().ttl(bus.PROCESS_LOG_KEY.format(PROCESS)) <= bus.PROCESS_LOG_EXPIRY_S


def test_only_the_newest_parts_are_kept() -> None:
    log = RecentLog(PROCESS)
    long = "x" * (PART_CHARS // 3)
    for number in range(4 * PARTS):
        text = written(log, f"{number} {long}")
    assert bus.client().llen(bus.PROCESS_LOG_KEY.format(PROCESS)) == PARTS
    assert f"{4 * PARTS - 1} {long}" in text and " 0 x" not in text
    assert len(text) <= PARTS * (PART_CHARS + MAX_RECORD_CHARS + 200)


def test_what_redis_has_lost_is_written_again() -> None:
    log = RecentLog(PROCESS)
    written(log, "first")
    bus.client().flushall()
    assert "first" in written(log)
    bus.client().flushall()
    text = written(log, "second")
    assert text.index("first") < text.index("second")


def test_a_long_record_is_cut_and_a_secret_hidden() -> None:
    text = written(RecentLog(PROCESS), "y" * 2 * MAX_RECORD_CHARS, "the password=hunter2 was wrong")
    assert "more characters)" in text and len(text) < MAX_RECORD_CHARS + 400
    assert "hunter2" not in text


def test_a_log_that_cannot_be_read_is_empty(settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    bus.disconnect()
    assert (read_process_log(PROCESS), read_process(PROCESS)) == ("", None)


def test_a_process_reports_itself_until_it_ends() -> None:
    reporter = ProcessReporter(PROCESS, "taskmanager", lambda: {"slots": 4})
    reporter.start()
    logger.error("the disk is full")
    reporter.stop()
    report = read_process(PROCESS)
    assert report is not None
    assert "the disk is full" in read_process_log(PROCESS)
    assert report["figures"]["log_errors"] == 1 and report["figures"]["slots"] == 4
    assert report["figures"]["resident_bytes"] > 1 << 20 and report["figures"]["disk_free_bytes"] > 0
    assert "MainThread" in [thread["name"] for thread in report["threads"]]
    assert report["python"].startswith("Python 3") and report["logged_at"] >= report["started_at"]
    logger.error("nobody listens any more")
    assert read_process(PROCESS) == report


def test_the_reporter_goes_on_when_redis_is_back(settings: Settings, redis_url: str) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    bus.disconnect()
    reporter = ProcessReporter(PROCESS, "jobmanager", interval_s=0.05)
    reporter.start()
    wait_until(lambda: reporter.is_away, 10, "a report fails")
    settings.REDIS_URL = redis_url
    bus.disconnect()
    wait_until(lambda: read_process(PROCESS) is not None, 10, "a report arrives")
    reporter.stop()


def test_the_reporter_goes_on_after_a_report_that_failed() -> None:
    fails = threading.Event()

    def figures() -> dict[str, float]:
        if fails.is_set():
            raise OSError(errno.EMFILE, "Too many open files")
        return {"slots": 4}

    fails.set()
    reporter = ProcessReporter(PROCESS, "jobmanager", figures, interval_s=0.05)
    reporter.start()
    wait_until(lambda: reporter.is_away, 10, "a report fails")
    fails.clear()
    wait_until(lambda: read_process(PROCESS) is not None, 10, "a report arrives")
    reporter.stop()


def test_a_dump_names_what_each_thread_does() -> None:
    released = threading.Event()

    def waits_for_release() -> None:
        released.wait()

    thread = threading.Thread(target=waits_for_release, name="waiting")
    thread.start()
    [dump] = [dump for dump in thread_dumps() if dump["name"] == "waiting"]
    released.set()
    thread.join()
    assert any(frame.startswith("waits_for_release (") for frame in dump["frames"])


def test_collections_are_counted_by_generation() -> None:
    collections = Collections()
    gc.callbacks.append(collections)
    gc.collect(0)
    gc.collect(2)
    gc.callbacks.remove(collections)
    figures = collections.figures()
    assert figures["gc0_count"] >= 1 and figures["gc2_count"] >= 1


def test_load_is_a_share() -> None:
    assert 0.0 <= CpuLoad().since_last() <= 1.0
