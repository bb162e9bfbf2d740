"""Previews of programs in real child processes: what is shown, how they end, and that nothing is left."""

from __future__ import annotations

import datetime
import socket
import subprocess
import sys
import threading
import time
import uuid
from decimal import Decimal
from typing import Any

import psutil
import pytest

from runtime.client import preview_child
from runtime.client.preview import Frame, Given, NodeLines, preview_program, preview_spares
from runtime.client.preview_samples import instant_of, value_of
from runtime.client.preview_taps import to_json
from runtime.common.time import Instant
from runtime.common.typeinfo import Types
from runtime.common.types import Row, RowKind
from tests.support.processes import children_running
from tests.support.waiting import wait_until

SOURCE = """
from runtime.common import Types, WatermarkStrategy
from runtime.connectors import NexmarkConfig, NexmarkKind, NexmarkSource
from runtime.datastream import StreamExecutionEnvironment
from runtime.common import Time
from runtime.datastream.window import TumblingEventTimeWindows

env = StreamExecutionEnvironment.get_execution_environment()
bids = env.from_source(
    NexmarkSource(NexmarkKind.BIDS, NexmarkConfig(events_per_second=1000.0)),
    WatermarkStrategy.for_monotonous_timestamps(), "Bids"
).uid("bids")
counts = (
    bids.key_by_columns("auction")
    .window(TumblingEventTimeWindows.of(Time.seconds(10)))
    .aggregate_columns("count(*) AS bids", "window_end").name("Counts").uid("counts")
)
counts.print().name("Show").uid("show")
env.execute("preview")
"""
LINES = [NodeLines("n1", 9, 12), NodeLines("n2", 13, 17), NodeLines("n3", 18, 18)]
STREAMS = {("n1", "out"): "bids", ("n2", "out"): "counts", ("flow", "out"): "flow"}


def preview(source: str = SOURCE, lines: list[NodeLines] = LINES, **more: Any) -> tuple[dict[Any, Frame], Frame]:
    """Return the last frame of each (node, port), and the end."""
    ports: dict[Any, Frame] = {}
    ends: list[Frame] = []

    def take(frame: Frame) -> None:
        if frame["kind"] == "end":
            ends.append(frame)
        else:
            ports[frame["node"], frame["port"]] = frame

    preview_program(source, lines, STREAMS, take, **more)
    [end] = ends
    return ports, end


def around(user: str) -> str:
    """A program with a function of the user's in lines 3 to 3."""
    return f"""
from runtime.datastream import StreamExecutionEnvironment
def f(x): {user}
env = StreamExecutionEnvironment.get_execution_environment()
flow = env.from_collection(list(range(100))).map(f).name("f"); flow.print()
env.execute()
"""


F_LINES = [NodeLines("code", 3, 3), NodeLines("flow", 5, 5)]


def test_rows_are_shown_for_every_port_and_windows_of_an_endless_source_fire() -> None:
    ports, end = preview(rows=2000)
    assert (end["state"], end["simulated"], end["limited"]) == ("finished", True, ["n1"])
    bids, counts, shown = ports["n1", "out"], ports["n2", "out"], ports["n3", "in"]
    assert (bids["rows"], len(bids["sample"])) == (2000, 200)
    assert bids["sample"][0].keys() >= {"auction", "price"}
    assert ["auction", "long"] in bids["columns"]
    assert bids["watermark"] is not None
    assert counts["rows"] == shown["rows"] > 0
    assert sum(row["bids"] for row in counts["sample"]) <= 2000
    # what is printed goes nowhere
    assert end["output"] == ""


def test_an_error_of_the_user_names_node_and_line() -> None:
    _, end = preview(around("return 1 // (x - 7)"), F_LINES)
    assert (end["state"], end["node"], end["line"]) == ("failed", "flow", 3)
    assert "ZeroDivisionError" in end["message"] and 'pipeline.py", line 3' in end["traceback"]
    _, end = preview("def f(:\n  pass\n", [NodeLines("n", 1, 2)])
    assert (end["state"], end["node"], end["line"]) == ("failed", "n", 1)
    _, end = preview("import nothing_of_that_name\n", [NodeLines("n", 1, 1)])
    assert (end["state"], end["node"], end["line"]) == ("failed", "n", 1)
    assert preview("x = 1\n", [])[1]["message"] == "The program does not reach execute()."


def test_a_preview_that_does_not_end_is_ended() -> None:
    began = time.monotonic()
    _, end = preview(around("\n    while True: pass"), F_LINES, wall_s=1.0, cpu_s=2)
    assert end["state"] in ("failed", "timed out") and end["message"].startswith("The preview was")
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(("wall_s", "cpu_s"), [(8.0, 60), (60.0, 8)])
def test_sources_end_while_there_is_time_for_what_they_have_emitted(wall_s: float, cpu_s: int) -> None:
    """Hundreds of hours of event time, of which each second costs steps of the cluster."""
    slow = SOURCE.replace("events_per_second=1000.0", "events_per_second=0.05")
    ports, end = preview(slow, rows=100_000, wall_s=wall_s, cpu_s=cpu_s)
    assert (end["state"], end["limited"]) == ("finished", ["n1"])
    bids, counts = ports["n1", "out"], ports["n2", "out"]
    assert 0 < bids["rows"] < 100_000 and counts["rows"] > 0


SLOW_TO_OPEN = """
from runtime.datastream import MapFunction, StreamExecutionEnvironment
class Model(MapFunction):
    def open(self, runtime_context):
        import time
        while time.process_time() < 6: pass
    def map(self, value):
        return value
env = StreamExecutionEnvironment.get_execution_environment()
flow = env.from_collection(list(range(100))).map(Model()).name("f"); flow.print()
env.execute()
"""


def test_the_time_of_sources_begins_when_they_are_asked() -> None:
    """Most of the time is over when the operators are open."""
    ports, end = preview(SLOW_TO_OPEN, [NodeLines("flow", 10, 10)], cpu_s=8)
    assert (end["state"], end["limited"]) == ("finished", [])
    assert ports["flow", "out"]["rows"] == 100


@pytest.mark.parametrize(("rows", "limited"), [(99, ["flow"]), (100, [])])
def test_a_source_of_as_many_rows_as_are_read_was_not_ended_early(rows: int, limited: list[str]) -> None:
    ports, end = preview(around("return x"), F_LINES, rows=rows)
    assert (end["state"], end["limited"]) == ("finished", limited)
    assert ports["flow", "out"]["rows"] == rows


WAITING = """
from runtime.common import WatermarkStrategy
from runtime.connectors import DataGeneratorSource, SocketSource
from runtime.connectors.field_generators import sequence
from runtime.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
none = WatermarkStrategy.no_watermarks()
flow = env.from_source(DataGeneratorSource.of_fields({"n": sequence()}, rows_per_second=0.01), none, "n"); flow.print()
env.from_source(SocketSource("127.0.0.1", PORT), none, "s").print()
env.execute()
"""


def test_a_source_that_waits_for_long_ends_with_the_others() -> None:
    """A hundred seconds by the clock are between its rows: the other source talks to the outside."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        program = WAITING.replace("PORT", str(server.getsockname()[1]))
        ports, end = preview(program, [NodeLines("flow", 8, 8), NodeLines("socket", 9, 9)], wall_s=8.0)
    assert (end["state"], end["simulated"], end["limited"]) == ("finished", False, ["flow", "socket"])
    assert ports["flow", "out"]["rows"] == 0


def test_a_preview_that_eats_memory_is_ended() -> None:
    _, end = preview(around("return bytearray(8 << 30)"), F_LINES)
    assert end["state"] == "failed" and "MemoryError" in end["message"]


def test_endless_output_does_not_reach_this_process() -> None:
    _, end = preview(around("\n    while True: print('x' * 1000)"), F_LINES, wall_s=1.0, cpu_s=2)
    assert end["state"] in ("failed", "timed out")
    assert len(end["output"]) <= 64 << 10


def test_what_a_program_has_started_ends_with_the_preview() -> None:
    """Also if it has left the process group."""
    mark = f"mark-{uuid.uuid4().hex}"
    user = (
        "\n    import subprocess, sys"
        f"\n    command = [sys.executable, '-c', 'import time; time.sleep(600)', {mark!r}]"
        "\n    subprocess.Popen(command, start_new_session=True)"
        "\n    print('started')"
        "\n    raise SystemExit"
    )
    _, end = preview(around(user), F_LINES)
    assert "started" in end["output"]
    wait_until(lambda: not _runs(mark), 5, "the program's own child has ended")


def test_a_stop_takes_less_than_a_second() -> None:
    stopped = threading.Event()
    ends: list[Frame] = []

    def take(frame: Frame) -> None:
        if frame["kind"] == "end":
            ends.append(frame)

    slow = around("\n    import time; time.sleep(600)")
    run = threading.Thread(target=lambda: preview_program(slow, F_LINES, STREAMS, take, is_abandoned=stopped.is_set))
    run.start()
    try:
        wait_until(lambda: bool(children_running("preview_child", recursive=True)), 20, "the child runs")
        began = time.monotonic()
    finally:
        stopped.set()
        run.join(20)
    assert time.monotonic() - began < 1.0
    assert [end["state"] for end in ends] == ["stopped"]


def _runs(argument: str) -> bool:
    """Return whether a process has this argument, whoever its parent is."""
    return any(argument in (process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))


def test_no_secret_of_this_process_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_SECRET_PG_URL", "canary-1618")
    ports, _ = preview(around("import os; return [x, str(dict(os.environ))]"), F_LINES)
    assert ports["flow", "out"]["rows"] > 0
    assert "canary" not in str(ports)


def test_values_are_shown_as_json() -> None:
    row = Row(a=1, b=2**60)
    row.set_row_kind(RowKind.DELETE)
    assert to_json(row) == {"a": 1, "b": str(2**60), "$kind": "DELETE"}
    assert to_json([float("nan"), float("inf"), b"\xff", "x" * 99_999])[:3] == ["nan", "inf", "ff"]
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    assert len(str(to_json(deep))) < 1000


def test_rows_come_with_their_event_time_and_the_watermark_before_them() -> None:
    ports, _ = preview(rows=500)
    bids = ports["n1", "out"]
    assert len(bids["times"]) == len(bids["watermarks"]) == len(bids["sample"])
    assert all(isinstance(time_ms, int) for time_ms in bids["times"])
    # event times that never fall: what has come is behind the watermark by nothing
    pairs = zip(bids["times"], bids["watermarks"], strict=True)
    assert all(mark is None or time_ms > mark for time_ms, mark in pairs)


def test_given_rows_are_read_in_place_of_a_source_with_their_event_times() -> None:
    def bid(auction: int, time_ms: int) -> list[Any]:
        row = {"auction": auction, "bidder": 1, "price": 5, "channel": "c", "url": "u", "date_time": None, "extra": ""}
        return [row, time_ms]

    ports, end = preview(given={"n1": Given([bid(7, 1_000), bid(7, 2_000), bid(8, 3_000), bid(7, 11_000)])})
    assert (end["state"], end["limited"]) == ("finished", [])
    assert [row["auction"] for row in ports["n1", "out"]["sample"]] == [7, 7, 8, 7]
    assert ports["n1", "out"]["times"] == [1_000, 2_000, 3_000, 11_000]
    counts = sorted((row["auction"], row["bids"]) for row in ports["n2", "out"]["sample"])
    assert counts == [(7, 1), (7, 2), (8, 1)]


def test_given_watermarks_are_the_only_ones() -> None:
    """The source's own strategy would make the second row late; the given watermark makes the third one so."""
    source = """
from runtime.common import Duration, Time, Types, WatermarkStrategy
from runtime.datastream import StreamExecutionEnvironment
from runtime.datastream.window import TumblingEventTimeWindows

env = StreamExecutionEnvironment.get_execution_environment()
flow = env.from_collection([], Types.ROW_NAMED(["k", "at"], [Types.STRING(), Types.LONG()])).uid("flow") \\
    .assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at"))
counts = flow.key_by_columns("k").window(TumblingEventTimeWindows.of(Time.seconds(1))) \\
    .aggregate_columns("count(*) AS n", "window_end").name("Counts").uid("counts")
counts.print().name("Show").uid("show")
env.execute("preview")
"""
    lines = [NodeLines("flow", 7, 8), NodeLines("counts", 9, 10), NodeLines("show", 11, 11)]
    streams = {("flow", "out"): "flow", ("counts", "out"): "counts"}
    given: list[list[Any]] = [
        [{"k": "a", "at": 5_000}, None],
        [{"k": "a", "at": 100}, None],
        ["watermark", 1_500],
        [{"k": "a", "at": 200}, None],
        [{"k": "a", "at": 1_700}, None],
    ]
    ports: dict[Any, Frame] = {}
    preview_program(
        source,
        lines,
        streams,
        lambda f: ports.update({(f.get("node"), f.get("port")): f}),
        given={"flow": Given(given)},
    )
    assert ports["flow", "out"]["times"] == [5_000, 100, 200, 1_700]
    assert ports["flow", "out"]["watermarks"] == [None, None, 1_500, 1_500]
    counted = sorted((row["window_end"], row["n"]) for row in ports["counts", "out"]["sample"])
    assert [count for _, count in counted] == [1, 1, 1]


def test_a_given_row_that_does_not_fit_names_its_source() -> None:
    _, end = preview(given={"n1": Given([[{"auction": 1, "nothing": 2}, None]])})
    assert (end["state"], end["node"]) == ("failed", "n1")
    assert "row 1" in end["message"] and "'nothing'" in end["message"]


def test_whatever_is_shown_can_be_given_again() -> None:
    instant = Instant(1_700_000_000, 123_456_000)
    kind = Types.ROW_NAMED(
        ["t", "d", "i", "n", "b", "l"],
        [
            Types.SQL_TIMESTAMP(),
            Types.SQL_DATE(),
            Types.INSTANT(),
            Types.BIG_DEC(),
            Types.PRIMITIVE_ARRAY(Types.BYTE()),
            Types.BASIC_ARRAY(Types.LONG()),
        ],
    )
    row = Row(
        t=datetime.datetime(2024, 1, 2, 3, 4, 5, 678_000),
        d=datetime.date(2024, 1, 2),
        i=instant,
        n=Decimal("12.50"),
        b=b"\x00\xff",
        l=[1, 2**60],
    )
    assert value_of(kind, to_json(row)) == row
    assert instant_of("1969-12-31T23:59:59.5Z") == Instant(-1, 500_000_000)


def test_a_fork_bomb_is_ended() -> None:
    began = time.monotonic()
    _, end = preview(around("\n    import os, time\n    while True: os.fork(); time.sleep(0.02)"), F_LINES)
    assert end["state"] == "failed" and "processes" in end["message"]
    assert time.monotonic() - began < 30
    wait_until(lambda: not children_running("preview_child", recursive=True), 10, "all of them have ended")


def test_a_huge_file_is_refused() -> None:
    user = "\n    with open('huge', 'wb') as f:\n        for _ in range(300): f.write(bytes(1 << 20))"
    _, end = preview(around(user), F_LINES)
    assert end["state"] == "failed" and "File too large" in end["message"]


def test_a_spare_child_serves_one_preview_and_no_other() -> None:
    spares = preview_spares()
    try:
        spares.prepare()
        spares.prepare()
        assert len(children_running("preview_child")) == 1
        ports, end = preview(around("import os; return [x, os.getpid()]"), F_LINES, spares=spares)
        again, _ = preview(around("import os; return [x, os.getpid()]"), F_LINES, spares=spares)
        assert end["state"] == "finished"
        pids = {frame["flow", "out"]["sample"][0][1] for frame in (ports, again)}
        assert len(pids) == 2
        spares.prepare()
        # a spare that has died is replaced
        [spare] = children_running("preview_child")
        spare.kill()
        spare.wait(5)
        assert preview(around("return x"), F_LINES, spares=spares)[1]["state"] == "finished"
    finally:
        spares.close()
    assert not children_running("preview_child", recursive=True)


def test_a_child_starts_without_libraries_that_few_previews_use() -> None:
    """They would take a tenth of the time until its first row."""
    script = f"import sys, {preview_child.__name__}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert {"psycopg", "redis"} & set(loaded) == set()
