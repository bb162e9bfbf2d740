"""State as CSV: an item a row, nothing that a spreadsheet would compute, and 10,000 rows at most."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from backend.live.state_csv import MAX_ROWS, Table, keys_table, lookup_table


def rows(table: Table) -> list[list[str]]:
    return list(csv.reader(io.StringIO(table.text)))


def found(*values: dict[str, Any], key: Any = "k") -> dict[str, Any]:
    plain = {"namespace": None, "touched": None, "is_decoded": True, "num_items": None, "is_cut": False}
    return {"key": key, "values": [plain | value for value in values], "num_values": len(values)}


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
        ("+1", "'+1"),
        ("-1+1", "'-1+1"),
        ("-inf", "'-inf"),
        ("-12345678901234567890", "-12345678901234567890"),
        ("-1.5", "-1.5"),
        ("-1E+3", "-1E+3"),
        (-1e300, "-1e+300"),
        (" =1", " '=1"),
        ("\n=1", "\n'=1"),
        ("\N{FULLWIDTH EQUALS SIGN}1", "'\N{FULLWIDTH EQUALS SIGN}1"),
        ("a;=1", "a;'=1"),
        ('a; "@b', "a; \"'@b"),
        ("a\n+1", "a\n'+1"),
        ("a; b-1", "a; b-1"),
        ({"a": "b;=1"}, '{"a": "b;\'=1"}'),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "\t'=1"),
        ("\ta", "'\ta"),
        ("a=1", "a=1"),
        (-1, "-1"),
        (-0.5, "-0.5"),
        (True, "true"),
        (["=1", None], '["=1", null]'),
        ({"ä": 1}, '{"ä": 1}'),
        (None, ""),
        ('two\nlines, "quoted"', 'two\nlines, "quoted"'),
    ],
)
def test_no_text_is_a_formula(text: Any, cell: str) -> None:
    assert rows(lookup_table(found({"value": text})))[1][3] == cell
    assert rows(keys_table({"keys": [{"key": text, "encoded_key": "06"}], "is_all": True}))[1] == [cell, "06"]


def test_a_long_run_of_white_space_costs_no_more_than_other_text() -> None:
    """Whoever fills the state could keep a web process busy for minutes otherwise."""
    text = "\n" * 100_000
    assert rows(keys_table({"keys": [{"key": text, "encoded_key": "06"}], "is_all": True}))[1] == [f"'{text}", "06"]


def test_items_of_lists_and_maps_have_rows_of_their_own() -> None:
    entries = {"value": [{"key": "=a", "value": 1}, {"key": "b", "value": 2}], "num_items": 2, "touched": [10, 20]}
    items = {"value": ["x", "y"], "num_items": 3, "namespace": [0, 1_000]}
    table = lookup_table(found(entries, items, key=["a", 7]))
    assert rows(table)[1:] == [
        ['["a", 7]', "", "'=a", "1", "10"],
        ['["a", 7]', "", "b", "2", "20"],
        ['["a", 7]', "[0, 1000]", "0", "x", ""],
        ['["a", 7]', "[0, 1000]", "1", "y", ""],
    ]
    assert (table.num_rows, table.is_cut) == (4, True)
    assert not lookup_table(found(entries)).is_cut


def test_an_export_ends_after_so_many_rows_and_says_so() -> None:
    keys = [{"key": number, "encoded_key": "06"} for number in range(MAX_ROWS + 1)]
    table = keys_table({"keys": keys, "is_all": True})
    assert (table.num_rows, len(rows(table)), table.is_cut) == (MAX_ROWS, MAX_ROWS + 1, True)
    whole = keys_table({"keys": keys[1:], "is_all": True})
    assert (whole.num_rows, whole.is_cut) == (MAX_ROWS, False)
    assert keys_table({"keys": keys[:1], "is_all": False}).is_cut
