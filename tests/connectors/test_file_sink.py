"""FileSink: what is committed is whole and stays, what is not committed is never seen and leaves nothing."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

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
from runtime.connectors.files.part_file import commit_part
from runtime.operators.sink import SinkError
from runtime.state.redistribution import redistribute
from runtime.testing.clock import ManualClock
from tests.connectors.rigs import SinkRig, SourceRig

TYPE = RowTypeInfo([Types.LONG(), Types.STRING(), Types.BIG_DEC(), Types.SQL_DATE()], ["id", "name", "amount", "day"])
ROWS = [
    Row(id=1, name='ü,"x"', amount=Decimal("12.50"), day=datetime.date(2024, 2, 29)),
    Row(id=2, name="", amount=None, day=None),
    Row(id=None, name=None, amount=Decimal("-0.000001"), day=datetime.date(1, 1, 1)),
]


def text_sink(path: Path) -> FileSink:
    return FileSink.for_row_format(path, Encoder.simple_string_encoder()).build()


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
    committables = list(rig.operator._pending)
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
    snapshots = [rig.operator.snapshot_state() for rig in second]
    for rig in second:
        rig.write(Row(id=101))
        rig.operator.close()
    assert visible(tmp_path) == []

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
    # a killed process closes its files and cleans nothing up
    dead.operator._writer._part._file.close()
    alive = SinkRig(sink, Types.STRING())
    alive.write("in progress elsewhere")
    stranger = SinkRig(text_sink(tmp_path), Types.STRING())
    stranger.write("another job's")
    assert len(hidden(tmp_path)) == 3
    restarted = SinkRig(sink, Types.STRING(), attempt=1)
    assert len(hidden(tmp_path)) == 2
    restarted.write("again")
    for rig in (restarted, alive, stranger):
        rig.finish()
    assert sorted(lines(tmp_path)) == ["again", "another job's", "in progress elsewhere"]
    assert hidden(tmp_path) == []


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
    with pytest.raises(SinkError, match=r"cannot be written as JSON: object has no form in JSON: .*'bad'"):
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
    rig = SinkRig(FileSink.for_parquet(tmp_path).build(), TYPE)
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
    assert [path.name.count(".kept.") for path in hidden(tmp_path)] == [1]
