"""Row: PyFlink's behaviour, and the fast constructors."""

import copy
import pickle
from typing import Any

import cloudpickle
import pytest

from runtime.common import Row, RowKind
from runtime.common.types import row_of, rows_of


def test_a_row_is_read_by_position_name_and_attribute() -> None:
    row = Row(name="x", age=3)
    assert (row[0], row["age"], row.name, row[0:2]) == ("x", 3, "x", ["x", 3])
    assert list(row) == ["x", 3]
    assert len(row) == 2
    assert "name" in row
    assert "x" not in row


def test_a_row_of_names_makes_rows() -> None:
    person = Row("name", "age")
    assert person("x", 3) == Row(name="x", age=3)
    assert repr(person) == "<Row('name', 'age')>"
    with pytest.raises(ValueError, match="3 values"):
        person(1, 2, 3)


def test_positions_and_names_are_not_mixed() -> None:
    with pytest.raises(ValueError, match="not both"):
        Row(1, a=2)


def test_a_field_that_is_not_there_is_an_error() -> None:
    row = Row(a=1)
    with pytest.raises(AttributeError, match="'b'"):
        _ = row.b
    with pytest.raises(KeyError):
        _ = row["b"]
    with pytest.raises(KeyError):
        row["b"] = 1
    with pytest.raises(AttributeError):
        row.b = 1  # type: ignore[attr-defined]
    with pytest.raises(IndexError):
        _ = row[1]


def test_rows_are_equal_by_names_values_and_kind() -> None:
    assert Row(1, 2) == row_of((1, 2), None)
    assert hash(Row(1, 2)) == hash(row_of((1, 2), None))
    assert Row(a=1) != Row(1)
    assert Row(a=1) != Row(b=1)
    assert Row.of_kind(RowKind.DELETE, 1) != Row(1)
    assert Row(1) != (1,)


def test_setting_a_value_leaves_the_tuple_that_a_row_was_made_of() -> None:
    values = (1, 2)
    row = row_of(values, ("a", "b"))
    row["b"] = 5
    row[0] = 4
    assert (row.as_dict(), values) == ({"a": 4, "b": 5}, (1, 2))


def test_as_dict_goes_into_rows_lists_and_dicts() -> None:
    row = Row(a=Row(b=1), c=[Row(d=2)], e={"f": Row(g=3)})
    assert row.as_dict()["a"] == Row(b=1)
    assert row.as_dict(True) == {"a": {"b": 1}, "c": [{"d": 2}], "e": {"f": {"g": 3}}}
    with pytest.raises(TypeError, match="without field names"):
        Row(1).as_dict()


def test_names_decide_the_order_of_values() -> None:
    assert Row(a=1, b=2).get_fields_by_names(["b", "a"]) == [2, 1]
    with pytest.raises(ValueError, match="'c'"):
        Row(a=1).get_fields_by_names(["c"])
    row = Row(1, 2)
    row.set_field_names(["x", "y"])
    assert row == Row(x=1, y=2)


@pytest.mark.parametrize("row", [Row(1, "a"), Row(a=1), Row.of_kind(RowKind.UPDATE_AFTER, 1), row_of((1,), ("a",))])
def test_rows_survive_pickle_and_copy(row: Any) -> None:
    for module in (pickle, cloudpickle):
        assert module.loads(module.dumps(row)) == row
    shallow = copy.copy(row)
    shallow[0] = None
    assert copy.deepcopy(row) == row != shallow


def test_rows_of_equals_row_of() -> None:
    records = [(1, "a"), (2, "b")]
    assert rows_of(records, ("x", "y")) == [row_of(r, ("x", "y")) for r in records]


def test_row_kinds_print_as_flink_does() -> None:
    assert [kind.short_string for kind in RowKind] == ["+I", "-U", "+U", "-D"]
