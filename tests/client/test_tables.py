"""Tables fit the terminal, and what is in them cannot break them."""

from __future__ import annotations

from runtime.client.tables import cut, table, width_of


def test_tables_align() -> None:
    assert table([("a", "n"), ("long", "10")], right={1}) == ["a      n", "long  10"]


def test_columns_are_cut_one_after_the_other_until_the_table_fits() -> None:
    rows = [("JOB", "NAME", "STATE"), ("0123456789abcdef", "a name that is rather long", "RUNNING")]
    shrink = ((1, 12), (0, 6), (1, 4))
    assert table(rows, columns=80, shrink=shrink)[1] == "0123456789abcdef  a name that is rather long  RUNNING"
    assert table(rows, columns=46, shrink=shrink)[1] == "0123456789abcdef  a name that is rat…  RUNNING"
    assert table(rows, columns=32, shrink=shrink)[1] == "01234567…  a name that…  RUNNING"
    assert table(rows, columns=22, shrink=shrink)[1] == "01234…  a na…  RUNNING"
    assert table(rows, columns=5, shrink=shrink)[1] == "01234…  a n…  RUNNING"


def test_without_a_width_nothing_is_cut() -> None:
    assert table([("a" * 5000,)], shrink=((0, 8),)) == ["a" * 5000]


def test_wide_and_combining_characters_keep_the_columns_straight() -> None:
    assert (width_of("潮汐"), width_of("e\u0301")) == (4, 1)
    assert table([("潮汐", "x"), ("abcd", "y")]) == ["潮汐  x", "abcd  y"]
    assert cut("潮汐潮汐", 6) == "潮汐…"


def test_a_name_breaks_no_line_and_colours_nothing() -> None:
    assert table([("a\nb\x1b[31mc", "x")]) == ["a b [31mc  x"]
