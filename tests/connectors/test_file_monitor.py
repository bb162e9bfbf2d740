"""A watched directory: new files are found once each, also across restores, and read by all subtasks."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from runtime.common import Types
from runtime.common.time import Duration
from runtime.common.typeinfo import RowTypeInfo
from runtime.common.watermark_strategy import WatermarkStrategy
from runtime.connectors import BadRecords, CsvFormat, FileSource, NdjsonFormat, ParquetFormat, StreamFormat
from runtime.connectors.files.file_monitor import FileMonitor, Found
from runtime.connectors.files.file_source import FileSource as FileSourceClass
from runtime.connectors.formats.file_format import FileFormat
from runtime.connectors.formats.parquet.files import ParquetColumnarRowInputFormat
from runtime.connectors.formats.text import TextLineFormat
from runtime.operators.source import Boundedness, NoSplit, SourceError
from runtime.operators.source_operator import SourceOperatorFactory
from runtime.state.state_meta import StateMeta
from tests.connectors.rigs import SourceRig
from tests.datastream.running import environment
from tests.job_runs import record_run
from tests.support.waiting import wait_until


def watching(*paths: Path) -> FileSourceClass:
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), *paths)
    return builder.monitor_continuously(Duration.of_millis(1)).build()


def put(directory: Path, name: str, text: str) -> None:
    unfinished = directory / f".{name}"
    unfinished.write_text(text)
    unfinished.rename(directory / name)


def test_new_files_are_read_as_they_appear(tmp_path: Path) -> None:
    put(tmp_path, "b", "b1\nb2\n")
    rig = SourceRig(watching(tmp_path), 2)
    rig.run_until(lambda: sorted(rig.values) == ["b1", "b2"], "the first file")
    (tmp_path / "below").mkdir()
    put(tmp_path / "below", "c", "c1\n")
    put(tmp_path, "a", "a1\n")
    (tmp_path / "_other").write_text("no")
    (tmp_path / "empty").touch()
    rig.run_until(lambda: sorted(rig.values) == ["a1", "b1", "b2", "c1"], "two more files")
    with (tmp_path / "empty").open("w") as file:
        file.write("e1\n")
    rig.run_until(lambda: "e1" in rig.values, "a file that is not empty any more")
    assert not rig.ended
    rig.close()
    assert len(rig.values) == 5


def test_a_restored_source_reads_no_file_again_and_none_in_vain(tmp_path: Path) -> None:
    put(tmp_path, "a", "a1\na2\na3\n")
    first = SourceRig(watching(tmp_path))
    first.run_until(lambda: first.values == ["a1"], "a record", max_rows=1)
    snapshots = first.snapshot()
    first.close()
    put(tmp_path, "b", "b1\n")
    second = SourceRig(watching(tmp_path), 2, snapshots=snapshots)
    second.run_until(lambda: len(second.values) == 3, "the rest and the new file")
    for _ in range(5):
        second.run_until(lambda: True, "another look")
    second.close()
    assert sorted(second.values) == ["a2", "a3", "b1"]


def test_ids_of_splits_depend_on_the_file_only(tmp_path: Path) -> None:
    put(tmp_path, "a", "a\n")
    ids = []
    for parallelism in (1, 3):
        enumerator = watching(tmp_path).create_enumerator(parallelism, None)
        wait_until(enumerator.discover, 5, "the listing")
        split = enumerator.next_split(0)
        assert not isinstance(split, NoSplit)
        ids.append(split.split_id)
        assert enumerator.next_split(0) is NoSplit.LATER
        assert json.loads(json.dumps(enumerator.snapshot())) == {"seen": [str(tmp_path / "a")], "splits": []}
        enumerator.close()
    assert ids == [f"{tmp_path / 'a'}:0"] * 2


def test_the_interval_lies_between_two_listings(tmp_path: Path) -> None:
    listings: list[frozenset[str]] = []

    def find(seen: frozenset[str]) -> Found:
        listings.append(seen)
        return Found([str(len(listings))], [])

    monitor = FileMonitor(find, 70, lambda split: split.split_id)
    wait_until(lambda: not monitor.discover() and monitor.discovery_delay_ms() == 70, 5, "the first listing")
    assert monitor.discover() is False
    wait_until(lambda: not monitor.discover() and monitor.discovery_delay_ms() == 70, 5, "the second listing")
    assert listings == [frozenset(), frozenset({"1"})]
    monitor.close()


def test_a_path_may_be_missing_at_first(tmp_path: Path) -> None:
    source = watching(tmp_path / "later")
    source.check()
    assert source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    rig = SourceRig(source)
    rig.run_until(lambda: True, "a look")
    (tmp_path / "later").mkdir()
    put(tmp_path / "later", "a", "a1\n")
    rig.run_until(lambda: rig.values == ["a1"], "the file")
    rig.close()


def test_a_failed_listing_fails_the_source() -> None:
    def find(seen: frozenset[str]) -> Found:
        raise SourceError("no disk")

    monitor = FileMonitor(find, 1, lambda split: split.split_id)

    def fails() -> bool:
        try:
            monitor.discover()
        except SourceError:
            return True
        return False

    wait_until(fails, 5, "the error")
    monitor.close()


def test_a_job_on_the_mini_cluster_finds_files_that_appear_while_it_runs(tmp_path: Path) -> None:
    put(tmp_path, "a", "a1\n")
    env = environment()
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), tmp_path)
    source = builder.monitor_continuously(timedelta(milliseconds=5)).build()
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "files")
    record_run("mini-cluster")
    with lines.execute_and_collect() as records:
        assert next(records) == "a1"
        put(tmp_path, "b", "b1\n")
        assert next(records) == "b1"


def once(*paths: Path) -> FileSourceClass:
    return FileSource.for_record_stream_format(StreamFormat.text_line_format(), *paths).build()


def test_files_may_be_watched_from_a_restore_on_and_are_not_read_again(tmp_path: Path) -> None:
    put(tmp_path, "a", "a1\na2\n")
    put(tmp_path, "b", "b1\n")
    first = SourceRig(once(tmp_path))
    first.run_until(lambda: first.values == ["a1"], "a record", max_rows=1)
    halfway = first.snapshot()
    first.run_to_end()
    for snapshots, rest in ((halfway, ["a2", "b1"]), (first.snapshot(), [])):
        put(tmp_path, "c", "c1\n")
        second = SourceRig(watching(tmp_path), snapshots=snapshots)
        second.run_until(lambda: "c1" in second.values, "the new file")  # noqa: B023 (called at once)
        second.close()
        assert second.values == [*rest, "c1"]


def test_a_watched_directory_may_be_read_to_its_end(tmp_path: Path) -> None:
    put(tmp_path, "a", "a1\na2\n")
    put(tmp_path, "b", "b1\n")
    first = SourceRig(watching(tmp_path))
    first.run_until(lambda: first.values == ["a1"], "a record", max_rows=1)
    snapshots = first.snapshot()
    first.close()
    second = SourceRig(once(tmp_path), snapshots=snapshots).run_to_end()
    assert second.values == ["a2", "b1"]
    third = SourceRig(once(tmp_path), 2, snapshots=second.snapshot()).run_to_end()
    assert third.values == []


def test_snapshots_of_earlier_versions_do_not_say_which_files_were_read(tmp_path: Path) -> None:
    put(tmp_path, "a", "a1\n")
    split = ["0:a:0", str(tmp_path / "a"), 0, 3]
    enumerator = once(tmp_path).create_enumerator(1, [split])
    assert not isinstance(enumerator.next_split(0), NoSplit)
    for saved in ([split], [], enumerator.snapshot()):
        assert once(tmp_path).create_enumerator(1, saved).next_split(1) is NoSplit.NEVER or saved == [split]
        with pytest.raises(SourceError, match="does not say which files were read"):
            watching(tmp_path).create_enumerator(1, saved)


def test_positions_are_of_what_the_format_counts() -> None:
    def states(source_format: FileFormat) -> StateMeta:
        source = FileSourceClass(source_format, ["/x"], None, None, BadRecords.fail(), None)
        return SourceOperatorFactory(source, WatermarkStrategy.no_watermarks(), "files").declared_states.states[0]

    row_type = RowTypeInfo([Types.LONG()], ["id"])
    of_lines = [states(f) for f in (TextLineFormat(), NdjsonFormat(row_type), CsvFormat(row_type))]
    of_groups = [states(f) for f in (ParquetFormat(), ParquetColumnarRowInputFormat(row_type))]
    for alike, others in ((of_lines, of_groups), (of_groups, of_lines)):
        assert all(one.is_readable_as(other) for one in alike for other in alike)
        assert not any(one.is_readable_as(other) for one in alike for other in others)
    # as earlier versions named them
    old = replace(of_lines[0], serializer="json<ranges of files, _CsvSchemaFormat>", former=())
    assert old.is_readable_as(of_lines[0]) and not old.is_readable_as(of_groups[0])
    old = replace(of_lines[0], serializer="json<ranges of files, ParquetColumnarRowInputFormat>", former=())
    assert old.is_readable_as(of_groups[0]) and not old.is_readable_as(of_lines[0])
