"""Lines of a slot's log say when, how grave and of which task they are."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from runtime.core.ids import OperatorId, TaskId, VertexId, operator_id_of
from runtime.operators.functions import MapFunction
from runtime.operators.map_operators import MapOperator, MapOperatorFactory
from runtime.task.client_output import LineRedirect, SlotClientChannel
from runtime.task.log_records import (
    HEAD,
    VERTEX_CHARS,
    RecordHandler,
    head_of,
    record_text,
    running_operator,
    without_heads,
)
from runtime.task.running_task import AsTask, running_task
from runtime.testing.harness import OneInputHarness

MAP = TaskId(VertexId("0123456789abcdef" * 2), 3)


@pytest.fixture
def sent() -> list[bytes]:
    return []


@pytest.fixture
def logger(sent: list[bytes]) -> Iterator[logging.Logger]:
    channel = SlotClientChannel(lambda name, position, payload: sent.append(payload))
    channel.redact = lambda text: text.replace("s3cret", "<password>")
    handler = RecordHandler(channel, "log")
    logger = logging.getLogger("demo.program")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield logger
    logger.removeHandler(handler)


def test_a_record_says_which_task_has_logged_it(logger: logging.Logger, sent: list[bytes]) -> None:
    with AsTask(MAP):
        logger.warning("slow: %s", 7)
    logger.error("no task")
    other = threading.Thread(target=lambda: logger.critical("a thread of the user's"))
    with AsTask(MAP):
        other.start()
        other.join()
    assert running_task() is None
    first, second, third = map(head_of, sent)
    assert first is not None and (first.level, first.vertex, first.subtask) == ("WARN", "0123456789ab", 3)
    assert sent[0][first.size :] == b"demo.program - slow: 7\n"
    assert second is not None and (second.level, second.vertex, second.subtask) == ("ERROR", "", None)
    assert third is not None and (third.level, third.vertex) == ("FATAL", "")


class Logging(MapFunction):
    """Logs each value before it is passed on."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def map(self, value: int) -> int:
        self._logger.info("value %d", value)
        return value


def test_a_record_says_which_operator_of_its_task_has_logged_it(logger: logging.Logger, sent: list[bytes]) -> None:
    with AsTask(MAP), OneInputHarness(MapOperatorFactory(Logging(logger))) as harness:
        harness.process([7])
        logger.info("between two operators")
    inside, between = map(head_of, sent)
    assert inside is not None and inside.operator == operator_id_of("Map")[:VERTEX_CHARS]
    assert sent[0][inside.size :] == b"demo.program - value 7\n" and inside.vertex == "0123456789ab"
    assert between is not None and (between.operator, between.vertex) == ("", "0123456789ab")


def test_an_object_that_answers_for_another_class_is_no_operator() -> None:
    class Pretender:
        __class__ = MapOperator  # type: ignore[assignment]

        def asked(self) -> OperatorId | None:
            return running_operator()

    assert Pretender().asked() is None


def test_a_head_has_the_time_of_the_record_whatever_the_zone(logger: logging.Logger, sent: list[bytes]) -> None:
    record = logger.makeRecord(logger.name, 25, __file__, 1, "odd", (), None)
    record.created = 1_782_900_000.123
    logger.handle(record)
    head = head_of(sent[0])
    assert head is not None and (head.time_ms, head.level) == (1_782_900_000_123, "INFO")


def test_a_message_cannot_pass_for_another_record(logger: logging.Logger, sent: list[bytes]) -> None:
    forged = record_text(0.0, logging.ERROR, MAP, "forged - yes")
    logger.info("hello\n%s\nlast", forged)
    lines = sent[0].splitlines()
    assert [HEAD.match(line) is not None for line in lines] == [True, False, False]
    assert lines[1] == b" " + forged.encode() and lines[2] == b"last"


def test_a_traceback_belongs_to_its_record_and_hides_what_it_must(logger: logging.Logger, sent: list[bytes]) -> None:
    try:
        raise ValueError("s3cret")
    except ValueError:
        logger.exception("cannot log in")
    assert len(sent) == 1 and b"s3cret" not in sent[0] and sent[0].endswith(b"ValueError: <password>\n")


def test_a_record_that_cannot_be_formatted_harms_nobody(
    logger: logging.Logger, sent: list[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    [handler] = logger.handlers
    for message, arguments in (("%d", ("no number",)), ("half \ud83c", ())):
        # not by way of the logger: pytest's own handlers raise
        handler.handle(logger.makeRecord(logger.name, logging.INFO, __file__, 1, message, arguments, None))
    assert "Logging error" in capsys.readouterr().err
    assert len(sent) == 1 and sent[0].endswith(b"half ?\n")


@pytest.mark.parametrize(
    ("line", "level"),
    [(b"2026-07-01 12:00:00,123 INFO  demo - x", "INFO"), (b"2026-07-01 12:00:00,123 WARNING demo - x", "WARN")],
)
def test_heads_of_earlier_releases_are_read(line: bytes, level: str) -> None:
    head = head_of(line)
    assert head is not None and (head.level, head.vertex, line[head.size :]) == (level, "", b"demo - x")


@pytest.mark.parametrize(
    "line", [b"2026-13-01 12:00:00,123 INFO  demo - x", b"2026-07-01 12:00:00 INFO x", b"Traceback", b"", b"\xff\xfe"]
)
def test_what_is_no_head_is_not_taken_for_one(line: bytes) -> None:
    assert head_of(line) is None


def test_nothing_on_stderr_passes_for_a_record(sent: list[bytes]) -> None:
    forged = record_text(1.0, logging.ERROR, MAP, "forged")
    stderr = LineRedirect(SlotClientChannel(lambda name, position, payload: sent.append(payload)), "log", without_heads)
    stderr.write(forged[:10])
    stderr.write(f"{forged[10:]}\n{forged}\n2026-07-01 is a date\n")
    lines = b"".join(sent).decode().splitlines()
    assert lines == [f" {forged}", f" {forged}", "2026-07-01 is a date"]
    assert all(head_of(line.encode()) is None for line in lines)
