from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.connectors.formats.file_format import even_ranges


@given(size=st.integers(0, 1 << 40), parts=st.integers(1, 200))
def test_ranges_cover_a_file_without_a_gap_and_are_about_as_long(size: int, parts: int) -> None:
    ranges = even_ranges(size, parts)
    starts, ends = [start for start, _ in ranges], [end or 0 for _, end in ranges]
    assert [*starts, size] == [0, *ends]
    assert 1 <= len(ranges) <= parts
    lengths = [end - start for start, end in zip(starts, ends, strict=True)]
    assert max(lengths) - min(lengths) <= 1
    assert size == 0 or min(lengths) > 0, "no part is empty"
