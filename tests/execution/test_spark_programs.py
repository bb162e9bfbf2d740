"""Programs on Spark as a user runs them: what they print, what they exit with, and that nothing is left of them."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tests.job_runs import record_run
from tests.support.programs import Finished, run_program, survivors
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

HEAD = """
from runtime.common import Types, WatermarkStrategy
from runtime.datastream import StreamExecutionEnvironment
from runtime.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
"""


def run_text(tmp_path: Path, text: str, env: dict[str, str] | None = None) -> Finished:
    program = tmp_path / "program.py"
    program.write_text(HEAD + text)
    done = run_program(program, cwd=tmp_path, env={"TIDEMARK_HOME": str(tmp_path / "home")} | (env or {}))
    record_run("spark local")
    wait_until(lambda: not survivors(done.mark), 10, "the end of the program's processes")
    return done


def last_line(done: Finished) -> str:
    return done.stderr.strip().splitlines()[-1]


def test_what_a_job_prints_reaches_the_programs_stdout_and_nothing_else_does(tmp_path: Path) -> None:
    done = run_text(
        tmp_path,
        """
def double(n):
    print("doubling", n)
    return 2 * n
env.from_collection([1, 2, 3], Types.LONG()).map(double, Types.LONG()).print()
env.execute("doubles")
""",
    )
    assert done.exit_code == 0, done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert sorted(line for line in lines if line.startswith("doubling")) == ["doubling 1", "doubling 2", "doubling 3"]
    printed = sorted(line.split("> ")[1] for line in lines if "> " in line)
    assert printed == ["2", "4", "6"]
    assert len(lines) == 6
    assert list((tmp_path / "home" / "logs").glob("spark-*.log"))


def test_a_program_that_logs_info_to_its_stdout_sees_nothing_of_sparks_connections(tmp_path: Path) -> None:
    done = run_text(
        tmp_path,
        """
import logging, sys
logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(name)s: %(message)s")
env.from_collection([1], Types.LONG()).print()
env.execute("one")
logging.getLogger("program").info("done")
""",
    )
    assert done.exit_code == 0, done.stderr
    assert "program: done" in done.stdout
    assert "py4j" not in done.stdout
    assert "clientserver" not in done.stdout


def test_a_failing_function_is_named_with_its_record_and_line(tmp_path: Path) -> None:
    done = run_text(
        tmp_path,
        """
def parse(text):
    return int(text)
env.from_collection(["1", "2", "three"]).map(parse).name("parse numbers").print()
env.execute("numbers")
""",
    )
    assert done.exit_code != 0
    message = last_line(done)
    assert "parse numbers" in message
    assert "'three'" in message
    assert "program.py:9" in message
    assert "return int(text)" in message
    assert "invalid literal" in message


@pytest.mark.slow
def test_a_record_beyond_the_limit_names_its_operator_and_the_option(tmp_path: Path) -> None:
    done = run_text(
        tmp_path,
        """
from runtime.common import Configuration
options = Configuration.from_dict({"taskmanager.network.max-record-size": "1000 b", "parallelism.default": "2"})
env = StreamExecutionEnvironment.get_execution_environment(options)
sizes = env.from_collection(range(8), Types.LONG()).map(lambda n: "x" * 2000, Types.STRING()).name("enlarge")
sizes.rebalance().map(len).print()
env.execute("large")
""",
    )
    assert done.exit_code != 0
    message = last_line(done)
    assert "operator 'enlarge' emitted a record of 2,0" in message
    assert "taskmanager.network.max-record-size allows 1,000" in message


@pytest.mark.slow
def test_a_large_record_goes_from_the_plan_to_another_slot_and_back(tmp_path: Path) -> None:
    done = run_text(
        tmp_path,
        """
large = env.from_collection(["x" * 20_000_000], Types.STRING())
with large.rebalance().map(lambda text: text + "y", Types.STRING()).execute_and_collect() as collected:
    print([(len(text), text[-1]) for text in collected])
""",
    )
    assert done.exit_code == 0, done.stderr
    assert done.stdout == "[(20000001, 'y')]\n"


@pytest.mark.slow
def test_time_and_memory_of_a_large_record_grow_with_its_size(tmp_path: Path) -> None:
    took, peak = {}, {}
    for megabytes in (50, 200):
        line = tmp_path / f"{megabytes}.txt"
        line.write_text("x" * (megabytes << 20))
        done = run_text(
            tmp_path,
            f"""
import resource, time
def measure(text):
    return len(text), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), {str(line)!r}).build()
lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines").set_parallelism(1)
began = time.monotonic()
with lines.rebalance().map(measure).execute_and_collect() as collected:
    [(size, rss_mib)] = list(collected)
print(size, rss_mib, time.monotonic() - began)
""",
        )
        assert done.exit_code == 0, done.stderr
        size, rss_mib, seconds = done.stdout.split()
        assert int(size) == megabytes << 20
        took[megabytes], peak[megabytes] = float(seconds), int(rss_mib)
    print(f"peak {peak} MiB, took {took} s")
    # four copies at most, and no more of them for a larger record
    assert peak[200] - peak[50] < 4 * 150
    # what does not depend on the size is in both
    assert took[200] < 4 * took[50] + 5


@pytest.mark.slow
def test_two_million_timers_at_one_watermark_hold_up_neither_heartbeats_nor_checkpoints(tmp_path: Path) -> None:
    """A slot without heartbeats for 5 s would be lost, a slice of 5 s would fail the job: nothing is restarted."""
    timers, parallelism = 2_000_000, 2
    done = run_text(
        tmp_path,
        f"""
import resource, time
from runtime.common import Configuration
from runtime.common.watermark_strategy import TimestampAssigner
from runtime.datastream.connectors.number_seq import NumberSequenceSource
from runtime.datastream.functions import KeyedProcessFunction

options = Configuration.from_dict({{
    "heartbeat.timeout": "5 s", "task.stall.timeout": "5 s",
    "execution.checkpointing.interval": "1 s", "execution.checkpointing.tolerable-failed-checkpoints": "0",
    "restart-strategy.type": "none",
    "execution.checkpointing.dir": {str(tmp_path / "checkpoints")!r},
}})
env = StreamExecutionEnvironment.get_execution_environment(options)
env.set_parallelism({parallelism})

def rss_mib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() >> 20

class AtOnce(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return 0

class Waits(KeyedProcessFunction):
    fired, before, most, began = 0, 0, 0, 0.0

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(1_000)

    def on_timer(self, timestamp, ctx):
        if not self.fired:
            self.before, self.began = rss_mib(), time.monotonic()
        self.fired += 1
        if not self.fired % 10_000:
            self.most = max(self.most, rss_mib())
        if ctx.get_current_key() % 1_000 == 0:
            yield ctx.get_current_key()

    def close(self):
        print("slot", self.fired, self.before, self.most, time.monotonic() - self.began)

source = NumberSequenceSource(0, {timers - 1})
marks = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(AtOnce())
keyed = env.from_source(source, marks, "numbers").key_by(lambda n: n, Types.LONG())
with keyed.process(Waits(), Types.LONG()).execute_and_collect() as collected:
    print("results", len(set(collected)))
""",
    )
    assert done.exit_code == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["results", str(timers // 1_000)] in lines
    slots = [
        (int(fired), int(before), int(most), float(took))
        for word, *rest in lines
        if word == "slot"
        for fired, before, most, took in [rest]
    ]
    print(slots)
    assert sum(fired for fired, *_ in slots) == timers
    for _, before, most, _ in slots:
        # what fires is not copied: a tenth for what is sent, and for allocators
        assert most < 1.1 * before + 50


def test_a_missing_file_is_one_clear_message(tmp_path: Path) -> None:
    done = run_text(
        tmp_path,
        """
source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "nowhere/x.txt").build()
env.from_source(source, WatermarkStrategy.no_watermarks(), "lines").print()
env.execute()
""",
    )
    assert done.exit_code != 0
    assert "nowhere/x.txt" in last_line(done)


def test_a_key_without_a_canonical_form_is_refused_with_the_reason(tmp_path: Path) -> None:
    done = run_text(
        tmp_path, 'env.from_collection([1]).key_by(lambda n: {"a": n}).map(lambda n: n).print()\nenv.execute()'
    )
    assert done.exit_code != 0
    assert "dict" in last_line(done)
    assert "key" in last_line(done)


def test_a_value_that_does_not_fit_its_type_is_named(tmp_path: Path) -> None:
    text = 'env.from_collection([1]).map(lambda n: "x", output_type=Types.LONG()).name("wrong").print()\nenv.execute()'
    done = run_text(tmp_path, text)
    assert done.exit_code != 0
    assert "wrong" in last_line(done)
    assert "'x'" in last_line(done)


def test_a_closed_port_of_the_master_is_said_at_once(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    master = {"TIDEMARK_CONF_SPARK_MASTER": f"spark://127.0.0.1:{port}"}
    done = run_text(tmp_path, "env.from_collection([1]).print()\nenv.execute()", master)
    assert done.exit_code != 0
    assert f"no Spark master answers at spark://127.0.0.1:{port}" in last_line(done)


def test_a_missing_java_is_said_at_once(tmp_path: Path) -> None:
    text = "env.from_collection([1]).print()\nenv.execute()"
    wrong_home = run_text(tmp_path, text, {"JAVA_HOME": str(tmp_path)})
    assert wrong_home.exit_code != 0
    assert "no bin/java" in last_line(wrong_home)
    if "JAVA_HOME" not in os.environ:
        nowhere = run_text(tmp_path, text, {"PATH": str(tmp_path)})
        assert nowhere.exit_code != 0
        assert "no Java found" in last_line(nowhere)


def test_an_unwritable_output_is_one_clear_message(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    text = 'env.from_collection([1]).sink_to(FileSink.for_ndjson("taken/out").build())\nenv.execute()'
    done = run_text(tmp_path, text)
    assert done.exit_code != 0
    assert "taken/out" in last_line(done)


def test_more_slots_than_the_master_has_are_refused_at_once(tmp_path: Path) -> None:
    done = run_text(
        tmp_path, "env.from_collection([1]).print()\nenv.execute()", {"TIDEMARK_CONF_SPARK_MASTER": "local[1]"}
    )
    assert done.exit_code != 0
    assert "needs 2 slots" in last_line(done)
