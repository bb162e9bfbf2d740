"""Bad records: the job fails, or they are left out and counted, or they are dead letters; each exactly once."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.common import Row, Types
from runtime.common.serialization import SimpleStringSchema
from runtime.common.typeinfo import RowTypeInfo
from runtime.common.watermark_strategy import WatermarkStrategy
from runtime.connectors import (
    DEAD_LETTERS,
    BadRecords,
    CsvFormat,
    FileSource,
    NdjsonFormat,
    RawLineFormat,
    StreamFormat,
)
from runtime.connectors.formats.bad_records import BadRecordHandler
from runtime.connectors.formats.file_format import LineFormat
from runtime.connectors.formats.messages import MessageDecoder
from runtime.metrics.metricbase import Counter
from runtime.operators.output_tag import OutputTag
from runtime.operators.source import SourceError
from tests.connectors.rigs import SourceRig
from tests.datastream.running import environment
from tests.job_runs import record_run

ROW = RowTypeInfo([Types.LONG(), Types.STRING()], ["id", "name"])
GOOD, BAD, BLANK = "good", "bad", "blank"


def source_of(path: Path, line_format: LineFormat, bad_records: BadRecords, splits: int = 1) -> FileSource:
    builder = FileSource.for_record_stream_format(line_format, path).set_splits(splits)
    return builder.set_bad_records(bad_records).build()


def lines_of(kinds: list[str]) -> list[bytes]:
    """NDJSON: some bad ones are no JSON, others do not fit the type."""
    texts = {BLANK: "", BAD: '{"id": "x"}'}
    return [
        (
            json.dumps({"id": i, "name": f"ü{i}"})
            if kind == GOOD
            else texts[kind]
            if i % 3
            else "{]"[: len(texts[kind])]
        ).encode()
        for i, kind in enumerate(kinds)
    ]


@settings(max_examples=60, deadline=None)
@given(
    kinds=st.lists(st.sampled_from([GOOD, GOOD, BAD, BLANK]), max_size=200),
    max_rows=st.integers(1, 40),
    steps=st.integers(0, 12),
    splits=st.integers(1, 3),
    typed=st.booleans(),
)
def test_each_record_and_each_dead_letter_comes_once_whenever_the_job_is_restored(
    kinds: list[str], max_rows: int, steps: int, splits: int, typed: bool
) -> None:
    lines = lines_of(kinds)
    good = [i for i, kind in enumerate(kinds) if kind == GOOD or (not typed and kind == BAD and i % 3)]
    bad = [i for i, kind in enumerate(kinds) if kind == BAD and i not in good]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "lines"
        path.write_bytes(b"\n".join([*lines, b""]) if lines else b"")
        source = source_of(path, NdjsonFormat(ROW if typed else None), BadRecords.to_side_output(), splits)
        first = SourceRig(source)
        for _ in range(steps):
            first.step(max_rows)
        snapshots = first.snapshot()
        first.close()
        second = SourceRig(source, 2, snapshots=snapshots).run(max_rows)
    values = first.values + second.values
    assert len(values) == len(good)
    if typed:
        assert sorted(row.id for row in values) == good
    letters = first.dead_letters + second.dead_letters
    offsets = [sum(len(line) + 1 for line in lines[:i]) for i in bad]
    assert sorted((int(letter.position), letter.data) for letter in letters) == list(
        zip(offsets, [lines[i] for i in bad], strict=True)
    )
    assert all(letter.origin == str(path) and letter.error for letter in letters)


@pytest.mark.parametrize("policy", [BadRecords.skip(), BadRecords.to_side_output()])
def test_bad_records_are_counted(policy: BadRecords, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,name\n1,a\nx,b\n3,c\n4\n5,e\n")
    rig = SourceRig(source_of(tmp_path / "a.csv", CsvFormat(ROW), policy)).run()
    assert rig.values == [Row(id=1, name="a"), Row(id=3, name="c"), Row(id=5, name="e")]
    assert [letter.data for letter in rig.dead_letters] == ([] if policy.tag is None else [b"x,b", b"4"])
    assert rig.metrics.snapshot()["numRecordsInErrors"] == 2


def test_a_file_of_nothing_but_bad_records_ends(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"{\n" * 500)
    rig = SourceRig(source_of(tmp_path / "a", NdjsonFormat(ROW), BadRecords.to_side_output())).run()
    assert rig.values == []
    assert len(rig.dead_letters) == 500


def test_text_that_is_not_utf_8_can_be_a_dead_letter(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfone\n\xff\nthree\r\n")
    rig = SourceRig(source_of(tmp_path / "a", StreamFormat.text_line_format(), BadRecords.to_side_output())).run()
    assert rig.values == ["one", "three"]
    assert [(letter.position, letter.data) for letter in rig.dead_letters] == [("7", b"\xff")]


def test_bad_records_fail_the_job_by_default(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b'{"id": 1}\n{\n')
    with pytest.raises(SourceError, match="line 2"):
        SourceRig(FileSource.for_record_stream_format(NdjsonFormat(ROW), tmp_path / "a").build()).run()


def test_dead_letters_have_a_type_of_their_own() -> None:
    with pytest.raises(ValueError, match="side output of bad records"):
        BadRecords.to_side_output(OutputTag("letters", Types.STRING()))
    assert BadRecords.to_side_output(OutputTag("letters")).tag == OutputTag("letters")


def test_a_program_reads_dead_letters_as_a_side_output(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b'{"id": 1}\n{\n{"id": 3}\n')
    env = environment()
    source = source_of(tmp_path / "a", NdjsonFormat(ROW), BadRecords.to_side_output())
    rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "file")
    letters = rows.get_side_output(DEAD_LETTERS).map(lambda letter: letter.data.decode(), output_type=Types.STRING())
    record_run("mini-cluster")
    both = rows.map(lambda row: str(row.id), output_type=Types.STRING()).union(letters)
    with both.execute_and_collect() as records:
        assert sorted(records) == ["1", "3", "{"]


# --- messages ---------------------------------------------------------------------------------------------------------


def decode(message_format: Any, messages: list[bytes], policy: BadRecords) -> tuple[list[Any], Any, list[Any]]:
    """Values, the indexes of their messages, dead letters."""
    handler = BadRecordHandler(policy, Counter())
    decoder = MessageDecoder(message_format, handler, "topic")
    values: list[Any] = []
    kept: list[int] = []
    start = 0
    while True:
        decoded = decoder.decode(messages[start:], lambda index, start=start: str(start + index))  # type: ignore[misc]
        values += decoded.batch.values()
        indexes = range(decoded.consumed) if decoded.kept is None else decoded.kept
        kept += [start + index for index in indexes]
        start += decoded.consumed
        if start == len(messages):
            break
        assert decoded.consumed > 0
    letters = handler.take()
    return values, kept, [] if letters is None else letters.values()


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([GOOD, BAD, BLANK]), st.integers(1, 90)), max_size=5))
def test_good_and_bad_messages_in_any_mixture(runs: list[tuple[str, int]]) -> None:
    kinds = [kind for kind, length in runs for _ in range(length)]
    values, kept, letters = decode(NdjsonFormat(ROW), lines_of(kinds), BadRecords.to_side_output())
    good = [i for i, kind in enumerate(kinds) if kind == GOOD]
    assert [row.id for row in values] == kept == good
    assert [int(letter.position) for letter in letters] == [i for i, kind in enumerate(kinds) if kind == BAD]


def test_one_step_looks_for_bad_messages_among_few() -> None:
    decoder = MessageDecoder(NdjsonFormat(ROW), BadRecordHandler(BadRecords.skip(), Counter()), "topic")
    assert decoder.decode([b"{"] * 5000, str).consumed <= 64


def test_messages_of_a_line_format() -> None:
    messages = [b'{"id": 1}', b'\n{"id":\n2}\n', b"{", b" ", b'{"id": 5}{"id": 6}']
    values, kept, letters = decode(NdjsonFormat(ROW), messages, BadRecords.to_side_output())
    assert [row.id for row in values] == [1, 2]
    assert kept == [0, 1]
    assert [letter.position for letter in letters] == ["2", "4"]
    assert decode(NdjsonFormat(ROW), messages[:2], BadRecords.fail())[1] == [0, 1]
    assert decode(NdjsonFormat(ROW), [], BadRecords.fail())[0] == []
    with pytest.raises(SourceError, match=r"topic, 2: .*'\{'"):
        decode(NdjsonFormat(ROW), messages, BadRecords.fail())


def test_messages_with_line_ends_inside() -> None:
    assert decode(StreamFormat.text_line_format(), [b"a\nb", b""], BadRecords.fail())[0] == ["a\nb", ""]
    assert decode(RawLineFormat(), [b"a\nb"], BadRecords.fail())[0] == [b"a\nb"]
    values, kept, letters = decode(
        CsvFormat(ROW, has_header=False), [b"1,a\r\n", b"2,\nb"], BadRecords.to_side_output()
    )
    assert (values, kept, len(letters)) == ([Row(id=1, name="a")], [0], 1)


def test_messages_of_a_schema() -> None:
    values, kept, letters = decode(SimpleStringSchema(), [b"a", b"\xff", b"c"], BadRecords.to_side_output())
    assert (values, kept, len(letters)) == (["a", "c"], [0, 2], 1)
