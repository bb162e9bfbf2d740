"""Previews of programs in real child processes: what is shown, how they end, and that nothing is left."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from runtime.client.preview import Frame, NodeLines, preview_program
from runtime.client.preview_taps import to_json
from runtime.common.types import Row, RowKind
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
    assert preview("x = 1\n", [])[1]["message"] == "The program does not come to execute()."


def test_a_preview_that_does_not_end_is_ended() -> None:
    began = time.monotonic()
    _, end = preview(around("\n    while True: pass"), F_LINES, wall_s=1.0, cpu_s=2)
    assert end["state"] in ("failed", "timed out") and end["message"].startswith("The preview was")
    assert time.monotonic() - began < 20


def test_a_preview_that_eats_memory_is_ended() -> None:
    _, end = preview(around("return bytearray(8 << 30)"), F_LINES)
    assert end["state"] == "failed" and "MemoryError" in end["message"]


def test_endless_output_does_not_reach_this_process() -> None:
    _, end = preview(around("\n    while True: print('x' * 1000)"), F_LINES, wall_s=1.0, cpu_s=2)
    assert end["state"] in ("failed", "timed out")
    assert len(end["output"]) <= 64 << 10


def test_what_a_program_has_started_ends_with_the_preview(tmp_path: Path) -> None:
    """Also if it has left the process group."""
    note = tmp_path / "pid"
    user = (
        "\n    import subprocess, sys, pathlib"
        "\n    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)"
        f"\n    pathlib.Path({str(note)!r}).write_text(str(child.pid))"
        "\n    raise SystemExit"
    )
    preview(around(user), F_LINES)
    pid = int(note.read_text())
    wait_until(lambda: not psutil.pid_exists(pid), 5, "the program's own child has ended")


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
        wait_until(lambda: any("preview_child" in " ".join(c) for c in _commands()), 20, "the child runs")
        began = time.monotonic()
    finally:
        stopped.set()
        run.join(20)
    assert time.monotonic() - began < 1.0
    assert [end["state"] for end in ends] == ["stopped"]


def _commands() -> list[list[str]]:
    found = []
    for child in psutil.Process(os.getpid()).children(recursive=True):
        try:
            found.append(child.cmdline())
        except psutil.NoSuchProcess:
            continue
    return found


def test_no_secret_of_this_process_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_SECRET_PG_URL", "canary-1618")
    ports, _ = preview(around("import os; return [x, str(dict(os.environ))]"), F_LINES)
    assert ports["flow", "out"]["rows"] > 0
    assert "canary" not in str(ports)


def test_values_are_shown_as_json() -> None:
    row = Row(a=1, b=2**60)
    row.set_row_kind(RowKind.DELETE)
    assert to_json(row) == {"a": 1, "b": str(2**60), "$kind": "DELETE"}
    assert to_json([float("nan"), float("inf"), b"\xff", "x" * 99_999])[:3] == ["nan", "inf", "b'\\xff'"]
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    assert len(str(to_json(deep))) < 1000
