"""Print, collect and black hole: what reaches the client, and when they let the task wait."""

from __future__ import annotations

import pytest

from runtime.common import Row, RowKind, Types
from runtime.connectors import BlackHoleSink, CollectSink, PrintSink, decode_collected
from runtime.core.batch import Mark, RecordBatch
from runtime.core.elements import Watermark
from tests.connectors.rigs import SinkRig


@pytest.mark.parametrize(
    ("identifier", "parallelism", "lines"),
    [
        (None, 1, "(a,1)\n(null,2)\n"),
        (None, 2, "2> (a,1)\n2> (null,2)\n"),
        ("id", 1, "id> (a,1)\nid> (null,2)\n"),
        ("id", 2, "id:2> (a,1)\nid:2> (null,2)\n"),
    ],
)
def test_print_shows_what_flink_shows(identifier: str | None, parallelism: int, lines: str) -> None:
    tuples = Types.TUPLE([Types.STRING(), Types.INT()])
    rig = SinkRig(PrintSink(identifier), tuples, subtask=1 if parallelism > 1 else 0, parallelism=parallelism)
    rig.write(("a", 1), (None, 2))
    rig.write()
    rig.finish()
    assert rig.client.sent == [("stdout", lines.encode())]


def test_print_shows_values_without_a_type_as_python_does() -> None:
    rig = SinkRig(PrintSink())
    rig.write(("China", 135), True, None)
    rig.finish()
    assert rig.client.sent == [("stdout", b"('China', 135)\nTrue\nNone\n")]


def test_print_shows_rows_as_pyflink_does() -> None:
    rows = Types.ROW([Types.STRING(), Types.DOUBLE(), Types.BOOLEAN()])
    rig = SinkRig(PrintSink(), rows)
    rig.write(Row("a", 1e10, True), Row.of_kind(RowKind.UPDATE_AFTER, None, 0.5, False))
    rig.finish()
    assert rig.client.sent == [("stdout", b"+I[a,10000000000.0,True]\n+U[None,0.5,False]\n")]


def test_collect_sends_batches_that_can_be_decoded() -> None:
    rig = SinkRig(CollectSink("7"))
    rig.write(1, "x", None)
    rig.write(lambda: 5)
    rig.finish()
    assert [channel for channel, _ in rig.client.sent] == ["collect:7"] * 2
    first, second = (decode_collected(payload) for _, payload in rig.client.sent)
    assert first == [1, "x", None]
    assert second[0]() == 5


@pytest.mark.parametrize("sink", [PrintSink(), CollectSink("1")])
def test_sinks_wait_for_a_slow_client(sink: PrintSink | CollectSink) -> None:
    rig = SinkRig(sink)
    assert rig.operator.is_available()
    rig.client.available = False
    assert not rig.operator.is_available()
    rig.finish()


def test_the_black_hole_counts() -> None:
    rig = SinkRig(BlackHoleSink())
    rig.write(1, 2, 3)
    rig.operator.process_batch(RecordBatch.of_values([4], marks=[Mark(0, 5), Mark(1, 9)]))
    rig.operator.process_watermark(Watermark(10))
    assert rig.metrics.snapshot()["numRecordsSend"] == 4
    assert rig.output.elements == [Watermark(9), Watermark(10)]
    rig.finish()
