"""FileSink: what is committed is whole and stays, what is not committed is never seen and leaves nothing."""

from __future__ import annotations

import datetime
import errno
import json
import os
import stat
import sys
import time
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.common import Encoder, Instant, Row, Types
from runtime.common.typeinfo import RowTypeInfo
from runtime.connectors import (
    BucketAssigner,
    CsvFormat,
    FileSink,
    FileSource,
    NdjsonFormat,
    OutputFileConfig,
    ParquetFormat,
    RollingPolicy,
)
from runtime.connectors.files.file_sink import FileSinkBuilder
from runtime.connectors.files.part_file import commit_part
from runtime.core.arrow import to_arrow
from runtime.core.batch import RecordBatch
from runtime.core.ids import Attempt, CheckpointId
from runtime.operators.sink import SinkError
from runtime.operators.sink_operator import HISTORY_STATE, ORIGIN_STATE, WRITER_STATE
from runtime.state.redistribution import redistribute
from runtime.state.snapshot import OperatorSnapshot, OperatorStateSnapshot, Redistribution
from runtime.task.failures import describe_failure
from runtime.testing.clock import ManualClock
from tests.connectors.crash_model import STEPS, SinkJob
from tests.connectors.crash_model import TYPE as ROW_TYPE
from tests.connectors.rigs import SinkRig, SourceRig
from tests.support.waiting import wait_until

TYPE = RowTypeInfo([Types.LONG(), Types.STRING(), Types.BIG_DEC(), Types.SQL_DATE()], ["id", "name", "amount", "day"])
ROWS = [
    Row(id=1, name='ü,"x"', amount=Decimal("12.50"), day=datetime.date(2024, 2, 29)),
    Row(id=2, name="", amount=None, day=None),
    Row(id=None, name=None, amount=Decimal("-0.000001"), day=datetime.date(1, 1, 1)),
]


def text_sink(path: Path) -> FileSink:
    return without_buckets(FileSink.for_row_format(path, Encoder.simple_string_encoder())).build()


def without_buckets(builder: FileSinkBuilder) -> FileSinkBuilder:
    return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())


def visible(path: Path) -> list[Path]:
    return sorted(p for p in path.rglob("*") if p.is_file() and not p.name.startswith("."))


def hidden(path: Path) -> list[Path]:
    return sorted(p for p in path.rglob(".*") if p.is_file())


def lines(path: Path) -> list[str]:
    return [line for file in visible(path) for line in file.read_text().splitlines()]


def test_records_are_seen_whole_after_the_commit_and_not_before(tmp_path: Path) -> None:
    rig = SinkRig(text_sink(tmp_path / "out"), Types.STRING(), subtask=1, parallelism=2)
    rig.write("a", "b")
    rig.write("c")
    rig.operator.finish()
    assert visible(tmp_path) == []
    assert len(hidden(tmp_path)) == 1
    rig.operator.commit_finished()
    rig.operator.commit_finished()
    rig.operator.close()
    assert lines(tmp_path) == ["a", "b", "c"]
    assert hidden(tmp_path) == []
    assert visible(tmp_path)[0].name.startswith("part-") and visible(tmp_path)[0].name.endswith("-1-0")


def test_closing_without_a_commit_discards_everything(tmp_path: Path) -> None:
    for finish in (False, True):
        rig = SinkRig(text_sink(tmp_path), Types.STRING())
        rig.write("a")
        if finish:
            rig.operator.finish()
        rig.operator.close()
        assert list(tmp_path.iterdir()) == []


def test_a_subtask_without_records_makes_no_file(tmp_path: Path) -> None:
    for sink in (FileSink.for_csv(tmp_path).build(), FileSink.for_parquet(tmp_path).build()):
        rig = SinkRig(sink, TYPE)
        rig.write()
        rig.finish()
    assert list(tmp_path.iterdir()) == []


def test_committing_again_changes_nothing_and_a_lost_file_is_an_error(tmp_path: Path) -> None:
    rig = SinkRig(text_sink(tmp_path), Types.STRING())
    rig.write("a")
    rig.operator.finish()
    committables = rig.operator.pending_committables
    rig.finish()
    committer = text_sink(tmp_path).create_committer()
    assert committer is not None
    committer.commit(committables)
    assert lines(tmp_path) == ["a"]
    visible(tmp_path)[0].unlink()
    with pytest.raises(SinkError, match="is gone"):
        committer.commit(committables)


def test_a_file_that_changed_since_it_was_prepared_is_not_committed(tmp_path: Path) -> None:
    (tmp_path / ".a").write_text("abc")
    with pytest.raises(SinkError, match="has 3 bytes; 4 were prepared"):
        commit_part({"temporary": str(tmp_path / ".a"), "target": str(tmp_path / "a"), "bytes": 4})


def test_a_file_that_a_savepoint_relies_on_is_written_to_by_nobody_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden, target = tmp_path / ".a", tmp_path / "a"
    hidden.write_text("abc")
    hidden.chmod(0o444)
    modes: list[int] = []
    rename = Path.rename

    def look_and_rename(self: Path, to: Path) -> Path:
        modes.append(stat.S_IMODE(self.stat().st_mode))
        return rename(self, to)

    monkeypatch.setattr(Path, "rename", look_and_rename)
    committable = {"temporary": str(hidden), "target": str(target), "bytes": 3}
    assert commit_part(committable)
    assert modes == [0o444]
    assert stat.S_IMODE(target.stat().st_mode) == 0o644
    assert not commit_part(committable)


@pytest.mark.parametrize("kind", ["ndjson", "csv", "parquet"])
def test_round_trip_of_nulls_unicode_dates_and_decimals(kind: str, tmp_path: Path) -> None:
    sink: Any = {"ndjson": FileSink.for_ndjson, "csv": FileSink.for_csv, "parquet": FileSink.for_parquet}[kind](
        tmp_path
    )
    rig = SinkRig(sink.build(), TYPE)
    rig.write(*ROWS[:1])
    rig.write(*ROWS[1:])
    rig.finish()
    assert [file.suffix for file in visible(tmp_path)] == [f".{kind}"]
    formats: Any = {"ndjson": NdjsonFormat(TYPE), "csv": CsvFormat(TYPE), "parquet": ParquetFormat()}
    rows = SourceRig(FileSource.for_record_stream_format(formats[kind], tmp_path).build()).run().values
    assert rows == ROWS


@pytest.mark.parametrize("kind", ["ndjson", "csv"])
def test_a_float_is_written_with_the_fewest_digits(kind: str, tmp_path: Path) -> None:
    sink: Any = {"ndjson": FileSink.for_ndjson, "csv": FileSink.for_csv}[kind](tmp_path)
    row_type = RowTypeInfo([Types.FLOAT(), Types.DOUBLE()], ["f", "d"])
    coerce = row_type.coercer()
    assert coerce is not None
    rig = SinkRig(sink.build(), row_type)
    rig.write(*map(coerce, [(3e38, 1.1), (1.1, None), (None, 0.1)]))
    rig.finish()
    (file,) = visible(tmp_path)
    assert (
        file.read_text().splitlines()
        == {
            "ndjson": ['{"f":3e+38,"d":1.1}', '{"f":1.1,"d":null}', '{"f":null,"d":0.1}'],
            "csv": ['"f","d"', "3e+38,1.1", "1.1,", ",0.1"],
        }[kind]
    )


def test_ndjson_of_values_without_a_type(tmp_path: Path) -> None:
    rig = SinkRig(FileSink.for_ndjson(tmp_path).build())
    instant = Instant.of_epoch_milli(1)
    rig.write({"a": (1, [2.5]), "r": Row(x=1), "p": Row(1, None)}, "text", 3, None)
    rig.write({"n": float("nan"), "i": [float("inf")], "b": b"\x00\xff", "t": datetime.time(1, 2), "at": instant})
    rig.finish()
    assert lines(tmp_path) == [
        '{"a":[1,[2.5]],"r":{"x":1},"p":[1,null]}',
        '"text"',
        "3",
        "null",
        '{"n":"NaN","i":["Infinity"],"b":"AP8=","t":"01:02:00","at":"1970-01-01T00:00:00.001000000Z"}',
    ]


def test_text_is_what_flink_prints(tmp_path: Path) -> None:
    rig = SinkRig(text_sink(tmp_path), Types.TUPLE([Types.STRING(), Types.BOOLEAN(), Types.DOUBLE()]))
    rig.write(("hi", True, 1.0), ("ü", None, 1e10))
    rig.finish()
    assert lines(tmp_path) == ["(hi,true,1.0)", "(ü,null,1.0E10)"]


@pytest.mark.parametrize("kind", ["text", "ndjson", "csv", "parquet"])
def test_restore_at_one_two_one_keeps_what_the_snapshot_holds(kind: str, tmp_path: Path) -> None:
    builders: Any = {
        "text": lambda: FileSink.for_row_format(tmp_path, Encoder.simple_string_encoder()),
        "ndjson": lambda: FileSink.for_ndjson(tmp_path),
        "csv": lambda: FileSink.for_csv(tmp_path),
        "parquet": lambda: FileSink.for_parquet(tmp_path),
    }
    sink = builders[kind]().build()
    row_type = RowTypeInfo([Types.LONG()], ["id"])
    first = SinkRig(sink, row_type)
    first.write(Row(id=1), Row(id=2))
    snapshot = first.operator.snapshot_state()
    first.write(Row(id=100))
    first.operator.close()

    second = [SinkRig(sink, row_type, i, 2, s, 1) for i, s in enumerate(redistribute([snapshot], 2, 128))]
    second[0].write(Row(id=3))
    second[1].write(Row(id=4))
    # what the first checkpoint held is committed by who restores it: of Parquet, which rolls at checkpoints, all
    seen = visible(tmp_path)
    assert len(seen) == (1 if kind == "parquet" else 0)
    snapshots = [rig.operator.snapshot_state() for rig in second]
    for rig in second:
        rig.write(Row(id=101))
        rig.operator.close()
    assert visible(tmp_path) == seen

    for _ in range(2):
        # twice: the first restore fails before it has committed
        third = SinkRig(sink, row_type, snapshot=redistribute(snapshots, 1, 128)[0], attempt=2)
        third.write(Row(id=5))
        if _ == 0:
            third.operator.close()
    third.finish()
    if kind == "parquet":
        ids = [i for file in visible(tmp_path) for i in pq.read_table(file)["id"].to_pylist()]
    else:
        ids = [int("".join(c for c in line if c.isdigit())) for line in lines(tmp_path) if line != '"id"']
    assert sorted(ids) == [1, 2, 3, 4, 5]
    assert hidden(tmp_path) == []


def test_a_new_attempt_removes_what_a_dead_one_left_and_nothing_else(tmp_path: Path) -> None:
    sink = text_sink(tmp_path)
    dead = SinkRig(sink, Types.STRING())
    dead.write("lost")
    kill(dead)
    alive = SinkRig(sink, Types.STRING())
    alive.write("in progress elsewhere")
    stranger = SinkRig(sink, Types.STRING(), job_id="another")
    stranger.write("another job's")
    assert len(hidden(tmp_path)) == 3
    restarted = SinkRig(sink, Types.STRING(), attempt=1)
    wait_until(lambda: len(hidden(tmp_path)) == 2, 10, "the sweep")
    restarted.write("again")
    for rig in (restarted, alive, stranger):
        rig.finish()
    assert sorted(lines(tmp_path)) == ["again", "another job's", "in progress elsewhere"]
    assert hidden(tmp_path) == []


def test_a_process_that_is_killed_while_it_looks_whether_it_may_write_leaves_nothing_for_ever(tmp_path: Path) -> None:
    process = os.fork()
    if process == 0:
        sys.addaudithook(lambda event, _: os._exit(9) if event == "os.remove" else None)
        SinkRig(text_sink(tmp_path), Types.STRING())
        os._exit(0)
    _, status = os.waitpid(process, 0)
    assert os.waitstatus_to_exitcode(status) == 9
    assert len(hidden(tmp_path)) == 1
    restarted = SinkRig(text_sink(tmp_path), Types.STRING(), attempt=1)
    wait_until(lambda: not hidden(tmp_path), 10, "the sweep")
    restarted.finish()


def test_a_writer_goes_on_with_a_copy_that_no_older_process_can_write_to(tmp_path: Path) -> None:
    sink = text_sink(tmp_path)
    frozen = SinkRig(sink, Types.STRING())
    frozen.write("kept")
    snapshot = frozen.snapshot(1)
    frozen.complete(1)
    rig = SinkRig(sink, Types.STRING(), snapshot=snapshot, attempt=1)
    rig.write("new")
    frozen.write("a zombie's")
    frozen.snapshot(2)
    rig.snapshot(2)
    rig.complete(2)
    kill(frozen)
    rig.finish()
    assert lines(tmp_path) == ["kept", "new"]
    assert hidden(tmp_path) == []


WIDE = RowTypeInfo([Types.LONG(), Types.STRING()], ["id", "name"])
OTHER_FORMATS = {
    "ndjson": (FileSink.for_ndjson, WIDE, ['{"id":2,"name":"b"}']),
    "another delimiter": (lambda path: FileSink.for_csv(path, delimiter=";"), WIDE, ['"id";"name"', '2;"b"']),
    "fewer columns": (FileSink.for_csv, RowTypeInfo([Types.LONG()], ["id"]), ['"id"', "2"]),
    "parquet": (FileSink.for_parquet, WIDE, None),
}


@pytest.mark.parametrize("other", OTHER_FORMATS)
def test_a_file_in_one_format_is_not_continued_in_another(other: str, tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    make, row_type, written = OTHER_FORMATS[other]
    first = SinkRig(without_buckets(FileSink.for_csv(before)).build(), WIDE)
    first.write(Row(id=1, name="a"))
    snapshot = first.snapshot(1)
    kill(first)
    second = SinkRig(without_buckets(make(after)).build(), row_type, snapshot=snapshot, attempt=1)
    second.write(Row(**dict(zip(row_type.get_field_names(), (2, "b"), strict=False))))
    second.finish()
    contents = [path.read_text().splitlines() for path in visible(after) if path.suffix != ".parquet"]
    assert sorted(contents) == sorted([['"id","name"', '1,"a"'], *([] if written is None else [written])])
    assert len(visible(after)) == 2


def test_a_file_of_an_earlier_version_is_continued_unless_its_name_says_that_it_is_another_format(
    tmp_path: Path,
) -> None:
    def unmarked(snapshot: OperatorSnapshot) -> OperatorSnapshot:
        [item] = [json.loads(item) for item in snapshot.operator_states[WRITER_STATE].items]
        del item["format"]
        state = replace(snapshot.operator_states[WRITER_STATE], items=[json.dumps(item).encode()])
        return replace(snapshot, operator_states={**snapshot.operator_states, WRITER_STATE: state})

    for make, files in ((FileSink.for_csv, 1), (FileSink.for_ndjson, 2)):
        directory = tmp_path / str(files)
        first = SinkRig(without_buckets(FileSink.for_csv(directory)).build(), WIDE)
        first.write(Row(id=1, name="a"))
        snapshot = unmarked(first.snapshot(1))
        kill(first)
        second = SinkRig(without_buckets(make(directory)).build(), WIDE, snapshot=snapshot, attempt=1)
        second.write(Row(id=2, name="b"))
        second.finish()
        assert len(visible(directory)) == files


def test_a_checkpoint_commits_what_is_finished_and_lets_go_of_it(tmp_path: Path) -> None:
    rig = SinkRig(
        FileSink.for_csv(tmp_path).with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build(), TYPE
    )
    for checkpoint_id in (1, 2, 3):
        rig.write(*ROWS)
        rig.snapshot(checkpoint_id)
        assert len(visible(tmp_path)) == checkpoint_id - 1
        rig.complete(checkpoint_id)
        assert (len(visible(tmp_path)), hidden(tmp_path)) == (checkpoint_id, [])
    assert open_files_below(tmp_path) == 0
    rig.complete(3)
    metrics = rig.metrics.snapshot()
    assert (metrics["successfulCommittables"], metrics["alreadyCommittedCommittables"]) == (3, 0)
    rig.operator.close()


def test_the_last_checkpoint_holds_what_the_end_of_input_has_finished(tmp_path: Path) -> None:
    sink = text_sink(tmp_path)
    rig = SinkRig(sink, Types.STRING())
    rig.write("a")
    rig.operator.finish()
    snapshot = rig.snapshot(1)
    # complete, but before anybody is told the slot is torn down in good order
    rig.operator.close()
    restored = SinkRig(sink, Types.STRING(), snapshot=snapshot, attempt=1)
    assert lines(tmp_path) == ["a"]
    restored.finish()
    assert lines(tmp_path) == ["a"] and hidden(tmp_path) == []


def test_a_job_that_stops_with_a_savepoint_leaves_nothing_hidden(tmp_path: Path) -> None:
    sink = text_sink(tmp_path)
    rig = SinkRig(sink, Types.STRING())
    rig.write("a")
    savepoint = rig.snapshot(1, is_last=True)
    rig.complete(1)
    rig.operator.commit_finished()
    rig.operator.close()
    assert lines(tmp_path) == ["a"] and hidden(tmp_path) == []
    for job_id in ("next", "another"):
        rig = SinkRig(sink, Types.STRING(), snapshot=savepoint, job_id=job_id)
        rig.write(job_id)
        rig.finish()
    assert sorted(lines(tmp_path)) == ["a", "another", "next"]


def test_a_restored_file_that_was_committed_since_stays_and_one_that_is_gone_is_an_error(tmp_path: Path) -> None:
    sink = text_sink(tmp_path)
    rig = SinkRig(sink, Types.STRING())
    rig.write("a")
    older = rig.snapshot(1)
    rig.finish()
    rig = SinkRig(sink, Types.STRING(), snapshot=older, attempt=1)
    rig.write("b")
    rig.finish()
    assert sorted(lines(tmp_path)) == ["a", "b"]
    for file in visible(tmp_path):
        file.unlink()
    with pytest.raises(SinkError, match="which the snapshot relies on, is gone") as caught:
        SinkRig(sink, Types.STRING(), snapshot=older, attempt=2)
    assert describe_failure(caught.value).is_damaged_snapshot
    assert hidden(tmp_path) == []


def test_a_savepoint_relies_on_nothing_that_the_job_goes_on_to_change(tmp_path: Path) -> None:
    sink = text_sink(tmp_path)
    rig = SinkRig(sink, Types.STRING())
    rig.write("a")
    rig.snapshot(1)
    rig.complete(1)
    savepoint = rig.snapshot(2, is_savepoint=True)
    assert savepoint.operator_states[WRITER_STATE].items == []
    assert visible(tmp_path) == []
    rig.write("b")
    rig.snapshot(3)
    rig.complete(3)
    assert lines(tmp_path) == ["a"]
    assert all(path.stat().st_mode & stat.S_IWUSR for path in visible(tmp_path))
    # killed; then restored twice
    kill(rig)
    for job_id in ("next", "another"):
        rig = SinkRig(sink, Types.STRING(), snapshot=savepoint, job_id=job_id)
        rig.write(job_id)
        rig.finish()
    assert sorted(lines(tmp_path)) == ["a", "another", "next"]


def test_a_savepoint_can_be_restored_although_its_job_has_gone_back_behind_it(tmp_path: Path) -> None:
    sink = text_sink(tmp_path)
    rig = SinkRig(sink, Types.STRING())
    rig.write("a")
    older = rig.snapshot(1)
    rig.complete(1)
    rig.write("b")
    savepoint = rig.snapshot(2, is_savepoint=True)
    kill(rig)
    rig = SinkRig(sink, Types.STRING(), snapshot=older, attempt=1)
    rig.write("b again")
    rig.finish()
    assert lines(tmp_path) == ["a", "b again"]
    assert len(hidden(tmp_path)) == 1
    SinkRig(sink, Types.STRING(), snapshot=savepoint, job_id="next").finish()
    assert sorted(lines(tmp_path)) == ["a", "a", "b", "b again"]
    assert hidden(tmp_path) == []


def savepoint_failed(rig: SinkRig, attempt: int, checkpoint_id: int) -> None:
    rig.operator.notify_savepoints_failed([(Attempt(attempt), CheckpointId(checkpoint_id))])


@pytest.mark.parametrize(
    ("failed", "left"),
    [([], 1), ([(0, 2)], 0), ([(0, 3)], 1), ([(1, 2)], 1), ([(0, 1), (0, 3)], 1), ([(0, 1), (0, 2), (0, 3)], 0)],
)
def test_what_was_prepared_for_a_savepoint_that_failed_with_its_attempt_is_swept(
    tmp_path: Path, failed: list[tuple[int, int]], left: int
) -> None:
    sink = text_sink(tmp_path)
    rig = SinkRig(sink, Types.STRING())
    older = rig.snapshot(1)
    rig.complete(1)
    rig.write("a")
    rig.snapshot(2, is_savepoint=True)
    kill(rig)
    rig = SinkRig(sink, Types.STRING(), snapshot=older, attempt=1)
    for attempt, checkpoint_id in failed:
        savepoint_failed(rig, attempt, checkpoint_id)
    rig.write("a again")
    rig.finish()
    assert lines(tmp_path) == ["a again"]
    assert len(hidden(tmp_path)) == left


def test_a_file_that_two_savepoints_rely_on_stays_as_long_as_one_of_them_may_be_complete(tmp_path: Path) -> None:
    sink = text_sink(tmp_path)
    rig = SinkRig(sink, Types.STRING())
    older = rig.snapshot(1)
    rig.complete(1)
    rig.write("a")
    complete = rig.snapshot(2, is_savepoint=True)
    rig.snapshot(3, is_savepoint=True)
    kill(rig)
    rig = SinkRig(sink, Types.STRING(), snapshot=older, attempt=1)
    savepoint_failed(rig, 0, 3)
    rig.finish()
    SinkRig(sink, Types.STRING(), snapshot=complete, job_id="next").finish()
    assert lines(tmp_path) == ["a"]
    assert hidden(tmp_path) == []


@pytest.mark.parametrize("refused", [1, 2])
def test_a_file_of_two_savepoints_stays_although_the_disk_does_not_take_the_name_of_one(
    tmp_path: Path, refused: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The savepoint whose name is refused is complete, the other one has failed."""
    calls, setxattr = iter((1, 2)), os.setxattr

    def refuse(file: int, name: str, value: bytes) -> None:
        if next(calls) == refused:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        setxattr(file, name, value)

    monkeypatch.setattr(os, "setxattr", refuse)
    sink = text_sink(tmp_path)
    rig = SinkRig(sink, Types.STRING())
    rig.write("a")
    savepoints = {number: rig.snapshot(number, is_savepoint=True) for number in (1, 2)}
    kill(rig)
    rig = SinkRig(sink, Types.STRING(), attempt=1)
    savepoint_failed(rig, 0, 3 - refused)
    rig.finish()
    SinkRig(sink, Types.STRING(), snapshot=savepoints[refused], job_id="next").finish()
    assert lines(tmp_path) == ["a"]
    [file] = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) & (stat.S_ISVTX | stat.S_IWUSR) == stat.S_IWUSR


def test_a_savepoint_may_be_taken_when_the_input_of_the_sink_has_ended(tmp_path: Path) -> None:
    sink = text_sink(tmp_path)
    rig = SinkRig(sink, Types.STRING())
    rig.write("a")
    rig.operator.finish()
    savepoint = rig.snapshot(1, is_savepoint=True)
    kill(rig)
    # the job begins again
    SinkRig(sink, Types.STRING(), attempt=1).finish()
    SinkRig(sink, Types.STRING(), snapshot=savepoint, job_id="next").finish()
    assert lines(tmp_path) == ["a"]


def test_a_reserved_file_that_names_no_savepoint_stays(tmp_path: Path) -> None:
    sink = text_sink(tmp_path)
    rig = SinkRig(sink, Types.STRING())
    rig.write("a")
    rig.snapshot(2, is_savepoint=True)
    kill(rig)
    [file] = hidden(tmp_path)
    file.chmod(0o644)
    os.removexattr(file, "user.tidemark.savepoints")
    file.chmod(0o444)
    rig = SinkRig(sink, Types.STRING(), attempt=1)
    savepoint_failed(rig, 0, 2)
    rig.finish()
    assert hidden(tmp_path) == [file]


def test_nothing_is_committed_of_a_snapshot_of_which_something_is_gone(tmp_path: Path) -> None:
    sink = FileSink.for_ndjson(tmp_path).with_bucket_assigner(BucketAssigner.by_field("id")).build()
    rig = SinkRig(sink, TYPE)
    rig.write(*ROWS[:2])
    savepoint = rig.snapshot(1, is_savepoint=True)
    kill(rig)
    hidden(tmp_path)[1].unlink()
    with pytest.raises(SinkError, match=r"is gone, and .* was never committed") as caught:
        SinkRig(sink, TYPE, snapshot=savepoint, attempt=1)
    assert describe_failure(caught.value).is_damaged_snapshot
    assert visible(tmp_path) == []


@pytest.mark.parametrize("is_savepoint", [False, True])
def test_a_restore_waits_for_an_output_directory_that_is_away(tmp_path: Path, is_savepoint: bool) -> None:
    out, away = tmp_path / "out", tmp_path / "away"
    sink = text_sink(out)
    rig = SinkRig(sink, Types.STRING())
    rig.write("a")
    snapshot = rig.snapshot(1, is_savepoint=is_savepoint)
    kill(rig)
    out.rename(away)
    for subtask in (1, 0):
        with pytest.raises(SinkError, match=f"{out} does not exist, and the snapshot relies on files in it") as caught:
            SinkRig(sink, Types.STRING(), snapshot=snapshot, attempt=1, subtask=subtask, parallelism=2)
        assert not describe_failure(caught.value).is_damaged_snapshot
    assert not out.exists(), "an empty one would be taken for that which is away"
    away.rename(out)
    rig = SinkRig(sink, Types.STRING(), snapshot=snapshot, attempt=2)
    rig.finish()
    assert lines(out) == ["a"]


def test_a_restore_waits_for_the_file_system_below_an_empty_mount_point(tmp_path: Path) -> None:
    out, away = tmp_path / "out", tmp_path / "away"
    sink = FileSink.for_ndjson(out).with_bucket_assigner(BucketAssigner.by_field("id")).build()
    rig = SinkRig(sink, TYPE)
    rig.write(*ROWS[:2])
    snapshots = [rig.snapshot(1), rig.snapshot(2, is_savepoint=True)]
    kill(rig)
    out.rename(away)
    out.mkdir()
    for snapshot in snapshots:
        with pytest.raises(SinkError, match="does not exist, and the snapshot relies on files in it") as caught:
            SinkRig(sink, TYPE, snapshot=snapshot, attempt=1)
        assert not describe_failure(caught.value).is_damaged_snapshot


def test_a_restore_may_write_to_another_directory_than_its_snapshot(tmp_path: Path) -> None:
    rig = SinkRig(text_sink(tmp_path / "old"), Types.STRING())
    rig.write("a")
    snapshot = rig.snapshot(1)
    kill(rig)
    rig = SinkRig(text_sink(tmp_path / "new"), Types.STRING(), snapshot=snapshot, attempt=1)
    rig.write("b")
    rig.finish()
    assert lines(tmp_path / "new") == ["a", "b"]


CLAIM = {"execution.state-recovery.claim-mode": "CLAIM"}


def test_a_job_that_claims_a_checkpoint_removes_what_its_job_left_once_it_has_replaced_it(tmp_path: Path) -> None:
    sink = text_sink(tmp_path)
    dead = SinkRig(sink, Types.STRING(), job_id="dead")
    dead.write("a")
    held = dead.snapshot(1)
    stranger = SinkRig(sink, Types.STRING(), job_id="stranger")
    stranger.write("a stranger's")
    kill(dead)
    new = SinkRig(sink, Types.STRING(), snapshot=held, job_id="new", configuration=CLAIM)
    new.write("b")
    sweep: Any = new.operator._sweeper
    wait_until(lambda: sweep._call.is_done, 10, "a look at what is there")
    # one that takes it for dead begins
    newest = SinkRig(sink, Types.STRING(), snapshot=held, job_id="newest", configuration=CLAIM)
    newest.write("c")
    newest_held = newest.snapshot(2)
    kill(newest)
    left = set(hidden(tmp_path))
    assert len(left) == 4
    new.snapshot(2)
    assert set(hidden(tmp_path)) == left
    new.complete(2)
    wait_until(lambda: len(hidden(tmp_path)) == 3, 10, "the sweep")
    new.finish()
    stranger.finish()
    assert len(hidden(tmp_path)) == 1
    again = SinkRig(sink, Types.STRING(), snapshot=newest_held, attempt=1, job_id="newest", configuration=CLAIM)
    again.finish()
    assert sorted(lines(tmp_path)) == ["a", "a", "a stranger's", "b", "c"]
    assert hidden(tmp_path) == []


RETAINED_3 = {"execution.checkpointing.num-retained": "3"}


def test_what_a_claimed_checkpoint_relied_on_goes_though_no_attempt_completes_as_many_as_are_retained(
    tmp_path: Path,
) -> None:
    sink = text_sink(tmp_path)
    dead = SinkRig(sink, Types.STRING(), job_id="dead")
    dead.write("a")
    snapshot = dead.snapshot(1)
    kill(dead)
    [claimed] = hidden(tmp_path)
    for attempt in range(3):
        assert claimed.exists(), "the claimed checkpoint is retained"
        options = CLAIM | RETAINED_3
        rig = SinkRig(sink, Types.STRING(), snapshot=snapshot, attempt=attempt, job_id="new", configuration=options)
        rig.write(f"b{attempt}")
        [snapshot] = redistribute([rig.snapshot(attempt + 2)], 1, 128)
        rig.complete(attempt + 2)
        kill(rig)
    rig = SinkRig(sink, Types.STRING(), snapshot=snapshot, attempt=3, job_id="new", configuration=CLAIM | RETAINED_3)
    rig.finish()
    assert lines(tmp_path) == ["a", "b0", "b1", "b2"]
    assert hidden(tmp_path) == []


def test_a_job_that_claims_another_ones_checkpoint_begins_to_count_anew(tmp_path: Path) -> None:
    sink = text_sink(tmp_path)
    old = SinkRig(sink, Types.STRING(), job_id="old", configuration=RETAINED_3)
    old.write("a")
    for checkpoint in range(5):
        held = old.snapshot(checkpoint)
        old.complete(checkpoint)
    kill(old)
    [claimed] = hidden(tmp_path)
    for _ in range(2):
        new = SinkRig(sink, Types.STRING(), snapshot=held, job_id="new", configuration=CLAIM | RETAINED_3)
        new.snapshot(6)
        new.complete(6)
        kill(new)
        assert claimed.exists()


def test_a_snapshot_of_an_earlier_version_names_the_job_that_is_claimed(tmp_path: Path) -> None:
    sink = text_sink(tmp_path)
    dead = SinkRig(sink, Types.STRING(), job_id="dead")
    dead.write("a")
    states = dict(dead.snapshot(1).operator_states)
    del states[HISTORY_STATE]
    states[ORIGIN_STATE] = OperatorStateSnapshot(Redistribution.UNION, [b'"dead"'])
    kill(dead)
    held = OperatorSnapshot(operator_states=states)
    new = SinkRig(sink, Types.STRING(), snapshot=held, job_id="new", configuration=CLAIM)
    new.snapshot(2)
    new.complete(2)
    new.finish()
    assert lines(tmp_path) == ["a"]
    assert hidden(tmp_path) == []


def test_what_an_older_checkpoint_relies_on_stays_until_the_job_has_finished_everywhere(tmp_path: Path) -> None:
    sink, retained = text_sink(tmp_path), {"execution.checkpointing.num-retained": "2"}
    rig = SinkRig(sink, Types.STRING())
    rig.write("a")
    older = rig.snapshot(1)
    rig.operator.close()
    rig = SinkRig(sink, Types.STRING(), snapshot=older, attempt=1, configuration=retained)
    rig.operator.finish()
    rig.snapshot(2)
    rig.complete(2)
    rig.operator.commit_finished()
    # another subtask's process ends here, and the last checkpoint turns out to be damaged
    rig.operator.close()
    rig = SinkRig(sink, Types.STRING(), snapshot=older, attempt=2, configuration=retained)
    rig.finish()
    assert lines(tmp_path) == ["a", "a"], "what was committed with the damaged one is written again"
    assert hidden(tmp_path) == []


def test_what_a_retained_checkpoint_relies_on_stays_when_attempts_restore_a_newer_one(tmp_path: Path) -> None:
    sink, retained = text_sink(tmp_path), {"execution.checkpointing.num-retained": "2"}
    rig = SinkRig(sink, Types.STRING(), configuration=retained)
    rig.write("a")
    first = rig.snapshot(1)
    rig.complete(1)
    kill(rig)
    rig = SinkRig(sink, Types.STRING(), snapshot=first, attempt=1, configuration=retained)
    rig.write("b")
    second = rig.snapshot(2)
    rig.complete(2)
    kill(rig)
    rig = SinkRig(sink, Types.STRING(), snapshot=second, attempt=2, configuration=retained)
    kill(rig)
    # the second turns out to be damaged
    rig = SinkRig(sink, Types.STRING(), snapshot=first, attempt=3, configuration=retained)
    rig.finish()
    assert lines(tmp_path) == ["a"]
    assert hidden(tmp_path) == []


def test_what_a_checkpoint_relied_on_goes_when_as_many_newer_ones_are_completed_as_are_retained(tmp_path: Path) -> None:
    sink, retained = text_sink(tmp_path), {"execution.checkpointing.num-retained": "2"}
    snapshot = None
    for attempt in range(5):
        rig = SinkRig(sink, Types.STRING(), snapshot=snapshot, attempt=attempt, configuration=retained)
        rig.write(str(attempt))
        if attempt < 4:
            snapshot = rig.snapshot(attempt + 1)
            rig.complete(attempt + 1)
            kill(rig)
    # the third checkpoint relies on the file of attempt 2, the fourth, which was restored, on that of attempt 3
    wait_until(lambda: sorted(map(attempt_of, hidden(tmp_path))) == [2, 3, 4], 10, "the sweep")
    rig.finish()
    assert lines(tmp_path) == ["0", "1", "2", "3", "4"]
    assert hidden(tmp_path) == []


@pytest.mark.parametrize("kind", ["row", "bulk"])
@settings(max_examples=15, deadline=None)
@given(steps=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 3)), max_size=20))
def test_every_record_is_in_one_visible_file_whatever_crashes(kind: str, steps: list[tuple[str, int]]) -> None:
    with TemporaryDirectory() as directory:
        base = Path(directory)
        builder = FileSink.for_ndjson(base) if kind == "row" else FileSink.for_parquet(base)
        job = SinkJob(builder.build(), kill)
        job.run(steps)
        if kind == "row":
            ids = [json.loads(line)["id"] for line in lines(base)]
        else:
            ids = [i for file in visible(base) for i in pq.read_table(file)["id"].to_pylist()]
        assert sorted(ids) == list(range(40))
        # of frozen processes files may be left, which nobody sees; the next attempt removes them
        left = [path for path in hidden(base) if path.stat().st_mode & stat.S_IWUSR]
        assert {attempt_of(path) for path in left} <= set(job.frozen_attempts)
        for number, savepoint in enumerate(job.savepoints):
            [merged] = redistribute(savepoint, 1, 128)
            SinkRig(builder.build(), ROW_TYPE, snapshot=merged, job_id=f"restored-{number}").finish()
        assert [path for path in hidden(base) if path not in left] == []


def attempt_of(path: Path) -> int:
    return int(path.name.rpartition(".")[2])


def kill(rig: SinkRig) -> None:
    """Simulate the end of the process: its files are closed, and so unlocked, and nothing is cleaned up."""
    writer: Any = rig.operator._writer
    if writer is not None:
        for part in (*writer._parts.values(), *writer._finished, *writer._prepared.values()):
            # its buffer may yet reach the disk
            part._writer.abandon()
            part._file.close()
        writer._cancel_check()
    sweeper: Any = rig.operator._sweeper
    if sweeper is not None and sweeper._call is not None:
        sweeper._call.close()


def open_files_below(path: Path) -> int:
    return sum(str(link.readlink()).startswith(str(path)) for link in Path("/proc/self/fd").iterdir() if link.exists())


def test_files_roll_by_size_age_and_inactivity(tmp_path: Path) -> None:
    policy = RollingPolicy.default_rolling_policy(part_size=10, rollover_interval=1000, inactivity_interval=300)
    builder = FileSink.for_row_format(tmp_path, Encoder.simple_string_encoder()).with_rolling_policy(policy)
    rig = SinkRig(builder.with_bucket_check_interval(100).build(), Types.STRING())
    rig.write("123456789")
    rig.write("b")
    for _ in range(6):
        rig.clock.advance(200)
        rig.timers.run_due()
        rig.write("c")
    rig.clock.advance(300)
    rig.timers.run_due()
    rig.write("d")
    rig.finish()
    contents = sorted(file.read_text().replace("\n", "") for file in visible(tmp_path))
    assert contents == ["123456789", "bcccc", "cc", "d"]


@pytest.mark.parametrize("bulk", [False, True])
def test_there_is_a_bucket_for_each_hour_of_local_time_unless_another_assigner_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bulk: bool
) -> None:
    clock = ManualClock(1_700_000_000_000)
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        rows = FileSink.for_row_format(tmp_path, Encoder.simple_string_encoder())
        rig = SinkRig((FileSink.for_parquet(tmp_path) if bulk else rows).build(), Types.LONG(), clock=clock)
        rig.write(1)
        clock.advance(3_600_000)
        rig.write(2)
        rig.finish()
    finally:
        monkeypatch.undo()
        time.tzset()
    files = visible(tmp_path)
    assert [file.parent.relative_to(tmp_path).name for file in files] == ["2023-11-15--03", "2023-11-15--04"]
    assert all(file.name.startswith("part-") for file in files)


def test_a_file_of_a_savepoint_from_before_there_were_buckets_by_default_goes_on(tmp_path: Path) -> None:
    before = SinkRig(text_sink(tmp_path), Types.STRING())
    before.write("a")
    snapshot = before.operator.snapshot_state()
    builder = FileSink.for_row_format(tmp_path, Encoder.simple_string_encoder())
    after = SinkRig(builder.build(), Types.STRING(), snapshot=snapshot, attempt=1)
    after.write("b")
    after.finish()
    old, new = sorted(visible(tmp_path), key=lambda file: len(file.parts))
    assert (old.parent, old.read_text()) == (tmp_path, "a\n")
    assert (new.parent.parent, new.read_text()) == (tmp_path, "b\n")
    before.operator.close()


def test_buckets_follow_the_wall_clock(tmp_path: Path) -> None:
    assigner = BucketAssigner.date_time_bucket_assigner("yyyy-MM-dd--HH", "Europe/Berlin")
    clock = ManualClock(1_700_000_000_000)
    config = OutputFileConfig.builder().with_part_prefix("bids").with_part_suffix(".log").build()
    builder = FileSink.for_row_format(tmp_path, Encoder.simple_string_encoder()).with_bucket_assigner(assigner)
    rig = SinkRig(builder.with_output_file_config(config).build(), Types.STRING(), clock=clock)
    rig.write("a")
    clock.advance(3_600_000)
    rig.write("b")
    rig.finish()
    files = visible(tmp_path)
    assert [file.parent.name for file in files] == ["2023-11-14--23", "2023-11-15--00"]
    assert all(file.name.startswith("bids-") and file.suffix == ".log" for file in files)


@pytest.mark.parametrize(
    ("pattern", "bucket"),
    [
        ("'year='yyyy/'month='MM", "year=2023/month=11"),
        ("'day 'dd' of 100%'", "day 14 of 100%"),
        ("HH' o''clock'", "22 o'clock"),
        ("HH''mm", "22'13"),
    ],
)
def test_letters_of_a_bucket_format_stand_in_quotes(pattern: str, bucket: str, tmp_path: Path) -> None:
    assigner = BucketAssigner.date_time_bucket_assigner(pattern, "UTC")
    builder = FileSink.for_row_format(tmp_path, Encoder.simple_string_encoder()).with_bucket_assigner(assigner)
    rig = SinkRig(builder.build(), Types.STRING(), clock=ManualClock(1_700_000_000_000))
    rig.write("a")
    rig.finish()
    assert [file.parent.relative_to(tmp_path).as_posix() for file in visible(tmp_path)] == [bucket]


@pytest.mark.parametrize("pattern", ["", "'year", "yyyy'", "'/tmp/'yyyy", "'.'.yyyy", "'..'"])
def test_a_bucket_format_that_leaves_the_base_path_or_a_quote_open_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="bucket format"):
        BucketAssigner.date_time_bucket_assigner(pattern)


CITY = RowTypeInfo([Types.STRING(), Types.LONG(), Types.SQL_DATE()], ["city", "n", "day"])
DAY = datetime.date(2024, 2, 29)
CITIES = [("Rome", 1, DAY), ("a/b c", 2, DAY), (None, 3, DAY), ("Rome", 4, None), ("", 5, DAY)]
BY_CITY_AND_DAY = {
    "city=/day=2024-02-29": [5],
    "city=Rome/day=2024-02-29": [1],
    "city=Rome/day=__HIVE_DEFAULT_PARTITION__": [4],
    "city=__HIVE_DEFAULT_PARTITION__/day=2024-02-29": [3],
    "city=a%2Fb%20c/day=2024-02-29": [2],
}


def ns_by_directory(path: Path) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for file in visible(path):
        numbers = [json.loads(line)["n"] for line in file.read_text().splitlines()]
        found.setdefault(str(file.parent.relative_to(path)), []).extend(numbers)
    return found


@pytest.mark.parametrize("form", ["rows", "columns", "dicts"])
def test_buckets_follow_fields_of_the_records(form: str, tmp_path: Path) -> None:
    builder = FileSink.for_ndjson(tmp_path).with_bucket_assigner(BucketAssigner.by_field("city", "day"))
    rig = SinkRig(builder.build(), None if form == "dicts" else CITY)
    rows = [Row(city=city, n=n, day=day) for city, n, day in CITIES]
    if form == "dicts":
        rig.write(*[row.as_dict() for row in rows])
    elif form == "rows":
        rig.write(*rows)
    else:
        rig.operator.process_batch(RecordBatch.of_arrow(to_arrow(rows, CITY), CITY))
    rig.finish()
    assert ns_by_directory(tmp_path) == BY_CITY_AND_DAY


def test_buckets_follow_a_function_of_the_records_and_rows_keep_their_order(tmp_path: Path) -> None:
    assigner = BucketAssigner.by_function(lambda record: "" if record["n"] < 2 else f"mod/{record['n'] % 2}")
    rig = SinkRig(FileSink.for_ndjson(tmp_path).with_bucket_assigner(assigner).build())
    for start in (0, 5):
        rig.write(*[{"n": n} for n in range(start, start + 5)])
    rig.finish()
    assert ns_by_directory(tmp_path) == {".": [0, 1], "mod/0": [2, 4, 6, 8], "mod/1": [3, 5, 7, 9]}


@pytest.mark.parametrize("bucket", ["/etc", "a/../b", "a//b", ".hidden", "a/_b", None, "a/"])
def test_a_bucket_that_is_no_visible_directory_below_is_refused(bucket: Any, tmp_path: Path) -> None:
    assigner = BucketAssigner.by_function(lambda record: bucket)
    rig = SinkRig(FileSink.for_ndjson(tmp_path).with_bucket_assigner(assigner).build())
    with pytest.raises(SinkError, match="is not a relative path of visible directories"):
        rig.write(1)
    rig.operator.close()


def test_records_without_the_field_of_their_bucket_are_refused(tmp_path: Path) -> None:
    sink = FileSink.for_ndjson(tmp_path).with_bucket_assigner(BucketAssigner.by_field("x")).build()
    for record in ({"y": 1}, Row(y=1), Row(1), 5, "x"):
        rig = SinkRig(sink)
        with pytest.raises(SinkError, match=r"a record has no fields \['x'\] for its bucket"):
            rig.write(record)
        rig.operator.close()
    rig = SinkRig(sink)
    with pytest.raises(SinkError, match="hashable value"):
        rig.write({"x": [1]})
    rig.operator.close()
    with pytest.raises(ValueError, match="name of a field"):
        BucketAssigner.by_field()


def test_many_buckets_do_not_keep_as_many_files_open(tmp_path: Path) -> None:
    assigner = BucketAssigner.by_function(lambda record: f"b{record['n'] % 150}")
    sink = FileSink.for_ndjson(tmp_path).with_bucket_assigner(assigner).build()
    rig = SinkRig(sink)
    rig.write(*[{"n": n} for n in range(300)])
    snapshot = rig.snapshot(1)
    assert len(snapshot.operator_states["sink-writer"].items) == 128
    rig.write({"n": 7})
    kill(rig)
    restored = [SinkRig(sink, None, i, 2, part, 1) for i, part in enumerate(redistribute([snapshot], 2, 128))]
    for rig in restored:
        rig.finish()
    found = ns_by_directory(tmp_path)
    assert (len(found), sorted(n for numbers in found.values() for n in numbers)) == (150, list(range(300)))
    assert hidden(tmp_path) == []


def test_a_target_that_cannot_be_written_is_named_when_the_job_opens(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(SinkError, match=r"sink test: .*file/out cannot be written: Not a directory"):
        SinkRig(text_sink(tmp_path / "file" / "out"), Types.STRING())
    with pytest.raises(SinkError, match=r"/proc/tidemark cannot be written"):
        SinkRig(text_sink(Path("/proc/tidemark")), Types.STRING())


def test_what_does_not_fit_the_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="Parquet needs records of a known type"):
        SinkRig(FileSink.for_parquet(tmp_path).build())
    with pytest.raises(SinkError, match="'l' of type list"):
        SinkRig(FileSink.for_csv(tmp_path).build(), RowTypeInfo([Types.LIST(Types.INT())], ["l"]))
    rig = SinkRig(FileSink.for_ndjson(tmp_path).build())
    with pytest.raises(SinkError, match=r"cannot be written as JSON: object has no JSON form: .*'bad'"):
        rig.write({"ok": 1}, {"bad": object()})
    rig.operator.close()
    with pytest.raises(ValueError, match="bulk formats must roll"):
        FileSink.for_parquet(tmp_path).with_rolling_policy(RollingPolicy.default_rolling_policy())
    with pytest.raises(ValueError, match="part prefix"):
        OutputFileConfig.builder().with_part_prefix("_x")
    with pytest.raises(ValueError, match="bucket format"):
        BucketAssigner.date_time_bucket_assigner("yyyy-ww")
    with pytest.raises(NotImplementedError):
        FileSink.for_ndjson(tmp_path).enable_compact()


def test_an_unfinished_parquet_file_is_removed_without_complaint(tmp_path: Path) -> None:
    rig = SinkRig(without_buckets(FileSink.for_parquet(tmp_path)).build(), TYPE)
    rig.write(*ROWS)
    rig.operator.close()
    assert list(tmp_path.iterdir()) == []


def test_committables_travel_as_json(tmp_path: Path) -> None:
    rig = SinkRig(text_sink(tmp_path), Types.STRING())
    rig.write("a")
    snapshot = rig.operator.snapshot_state()
    for state in snapshot.operator_states.values():
        assert all(json.loads(item) for item in state.items)
    rig.operator.close()
    assert len(hidden(tmp_path)) == 1, "the snapshot holds the file"
