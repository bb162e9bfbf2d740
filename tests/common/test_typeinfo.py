"""Types: equality, text form, and what their coercers do to values."""

import array
import datetime as dt
import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from runtime.common import Instant, Row, RowKind, RowTypeInfo, TypeInformation, Types
from runtime.common.coercion import all_fit, settled_test
from runtime.common.typeinfo import parse_type

NAMED = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])
LONG_DECIMAL = Decimal("1.05999999999999999899999999999")
ALL = [
    *(Types.STRING(), Types.BYTE(), Types.BOOLEAN(), Types.SHORT(), Types.INT(), Types.LONG(), Types.FLOAT()),
    *(Types.DOUBLE(), Types.CHAR(), Types.BIG_INT(), Types.BIG_DEC(), Types.INSTANT(), Types.SQL_DATE()),
    *(Types.SQL_TIME(), Types.SQL_TIMESTAMP(), Types.PICKLED_BYTE_ARRAY(), Types.ROW([Types.INT()]), NAMED),
    *(Types.TUPLE([Types.INT(), NAMED]), Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.BASIC_ARRAY(Types.STRING())),
    *(Types.OBJECT_ARRAY(NAMED), Types.MAP(Types.STRING(), Types.LIST(Types.INT())), Types.LIST(Types.LONG())),
]


def coerced(type_info: Any, value: Any) -> Any:
    return type_info.coercer()(value)


def test_every_member_of_types_is_here() -> None:
    members = {name for name in vars(Types) if not name.startswith("_")}
    assert len(members) == len(ALL) == 24


@pytest.mark.parametrize("type_info", ALL, ids=repr)
def test_types_survive_pickle_and_their_own_text(type_info: Any) -> None:
    assert pickle.loads(pickle.dumps(type_info)) == type_info
    assert parse_type(type_info.type_string()) == type_info
    assert hash(parse_type(type_info.type_string())) == hash(type_info)


def test_the_hash_of_a_row_type_stays_in_its_process() -> None:
    row = Types.ROW_NAMED(["id", "word"], [Types.LONG(), Types.STRING()])
    before = pickle.dumps(row)
    assert hash(row) == hash(pickle.loads(before))
    # texts have another hash in each process
    assert pickle.dumps(row) == before


def test_types_differ_by_content() -> None:
    assert len(set(ALL)) == 24
    assert Types.LIST(Types.INT()) != Types.OBJECT_ARRAY(Types.INT())


def test_types_show_themselves_as_pyflink_does() -> None:
    named = Types.ROW_NAMED(["a"], [Types.MAP(Types.STRING(), Types.LIST(Types.INT()))])
    assert repr(named) == str(named) == "RowTypeInfo(a: MapTypeInfo<String, ListTypeInfo<Integer>>)"
    assert [repr(Types.INT()), repr(Types.BIG_INT())] == ["Integer", "BigInteger"]


def test_odd_field_names_survive_the_text() -> None:
    odd = Types.ROW_NAMED(['a, "b">', "é: <"], [Types.INT(), Types.INT()])
    assert parse_type(odd.type_string()) == odd


@pytest.mark.parametrize("text", ["", "int8", "row<int", "row<int>x", "list<int, int>", "map<int>", "foo<int>", "a<<"])
def test_what_is_no_type_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match="not a type"):
        parse_type(text)


def test_rows_without_names_have_numbered_fields() -> None:
    assert Types.ROW([Types.INT(), Types.INT()]).get_field_names() == ["f0", "f1"]
    assert NAMED.get_field_index("age") == 1
    assert NAMED.get_field_index("x") == -1


@pytest.mark.parametrize(
    "make",
    [
        lambda: Types.ROW_NAMED(["a"], []),
        lambda: Types.ROW_NAMED(["a", "a"], [Types.INT(), Types.INT()]),
        lambda: Types.ROW([int]),  # type: ignore[list-item]
        lambda: Types.LIST(str),  # type: ignore[arg-type]
        lambda: Types.MAP(Types.INT(), None),  # type: ignore[arg-type]
        lambda: Types.PRIMITIVE_ARRAY(Types.STRING()),
        lambda: Types.BASIC_ARRAY(NAMED),
    ],
)
def test_wrong_declarations_are_refused(make: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        make()


@pytest.mark.parametrize(
    ("type_info", "value", "expected"),
    [
        (Types.INT(), True, 1),
        (Types.INT(), 3.0, 3),
        (Types.INT(), np.float32(3), 3),
        (Types.SHORT(), Decimal("2E+3"), 2000),
        (Types.LONG(), np.int32(7), 7),
        (Types.FLOAT(), 110.1, 110.0999984741211),
        (Types.FLOAT(), 1e300, float("inf")),
        (Types.DOUBLE(), 3, 3.0),
        (Types.DOUBLE(), np.float32(0.5), 0.5),
        (Types.DOUBLE(), Decimal("1.5"), 1.5),
        (Types.BOOLEAN(), np.bool_(True), True),
        (Types.BOOLEAN(), 1, True),
        (Types.BOOLEAN(), np.int8(0), False),
        (Types.CHAR(), "x", "x"),
        (Types.BIG_INT(), 2**100, 2**100),
        (Types.BIG_DEC(), LONG_DECIMAL, LONG_DECIMAL),
        (Types.BIG_DEC(), 7, Decimal(7)),
        (Types.BIG_DEC(), 1.1, Decimal("1.1")),
        (Types.BIG_DEC(), np.float64(0.1), Decimal("0.1")),
        (Types.INSTANT(), Instant(1, 2), Instant(1, 2)),
        (Types.SQL_DATE(), dt.datetime(2020, 1, 2, 3), dt.date(2020, 1, 2)),
        (Types.SQL_TIME(), dt.time(1, 2, 3, 4567), dt.time(1, 2, 3, 4000)),
        (
            Types.SQL_TIMESTAMP(),
            dt.datetime(2020, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2))),
            dt.datetime(2020, 1, 1),
        ),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), bytearray(b"ab"), b"ab"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), [1, -1, 255], b"\x01\xff\xff"),
        (Types.PRIMITIVE_ARRAY(Types.INT()), array.array("i", [1, 2]), [1, 2]),
        (Types.BASIC_ARRAY(Types.FLOAT()), (1, None), [1.0, None]),
        (Types.LIST(Types.INT()), np.array([1, 2]), [1, 2]),
        (Types.MAP(Types.STRING(), Types.SHORT()), {"a": 32767}, {"a": 32767}),
        (Types.TUPLE([Types.STRING(), Types.INT()]), ["a", 1], ("a", 1)),
        (Types.TUPLE([Types.STRING(), Types.INT()]), Row("a", 1), ("a", 1)),
    ],
    ids=repr,
)
def test_values_take_their_types_form(type_info: Any, value: Any, expected: Any) -> None:
    result = coerced(type_info, value)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize("type_info", ALL, ids=repr)
def test_values_that_fit_at_one_look_are_those_that_come_back_as_they_are(type_info: Any) -> None:
    coercer = type_info.coercer()
    if coercer is None:
        return
    values = [0, -1, 127, 128, -(2**31), 2**31, 2**63 - 1, 2**63, True, 1.5, "a", "ab", b"a", None, np.int64(3)]
    for value in [*values, Instant(1, 2), dt.date(2020, 1, 1), [1], (1, "x"), np.float64(2)]:
        if all_fit(coercer, [value, value]):
            assert coercer(value) is value
    assert not all_fit(coercer, [None])


@pytest.mark.parametrize("type_info", ALL, ids=repr)
def test_values_that_pass_the_test_of_their_type_come_back_as_they_are(type_info: Any) -> None:
    names: dict[str, Any] = {}
    text = settled_test(type_info.coercer(), "value", names)
    if text is None:
        return
    passes = eval(f"lambda value: {text}", names)
    coercer = type_info.coercer() or (lambda value: value)
    values = [0, -1, 127, 128, -(2**31), 2**31, 2**63 - 1, 2**63, True, 1.5, "a", "ab", b"a", None, np.int64(3)]
    for value in [*values, Instant(1, 2), dt.date(2020, 1, 1), [1], (1, "x"), ("x", 1), (2**63, "x"), np.float64(2)]:
        if passes(value):
            assert coercer(value) is value


def test_plain_types_and_tuples_of_them_have_a_test() -> None:
    names: dict[str, Any] = {}
    for type_info, value in (
        (Types.LONG(), 5),
        (Types.STRING(), "a"),
        (Types.TUPLE([Types.STRING(), Types.INT()]), ("a", 1)),
    ):
        assert eval(settled_test(type_info.coercer(), "value", names) or "False", names | {"value": value})
    assert settled_test(Types.TUPLE([Types.LIST(Types.INT())]).coercer(), "value", names) is None


def coercer_of(type_info: TypeInformation) -> Callable[[Any], Any]:
    coercer = type_info.coercer()
    assert coercer is not None
    return coercer


def test_integers_beyond_their_types_range_do_not_fit_at_one_look() -> None:
    for type_info, bits in ((Types.BYTE(), 8), (Types.SHORT(), 16), (Types.INT(), 32), (Types.LONG(), 64)):
        half = 1 << (bits - 1)
        assert all_fit(coercer_of(type_info), [-half, half - 1])
        assert not all_fit(coercer_of(type_info), [0, half])
    assert all_fit(coercer_of(Types.BIG_INT()), [2**80])
    assert not all_fit(coercer_of(Types.LONG()), [1, True])


def test_tuples_fit_at_one_look_if_every_field_does() -> None:
    coercer = coercer_of(Types.TUPLE([Types.LONG(), Types.STRING(), Types.PICKLED_BYTE_ARRAY()]))
    assert all_fit(coercer, [(1, "a", []), (2, "b", None)])
    for other in [(1, "a"), [1, "a", None], (True, "a", None), (1, None, None), (2**63, "a", None), Row(1, "a", None)]:
        assert not all_fit(coercer, [(1, "a", None), other])
    assert not all_fit(coercer, [])


@pytest.mark.parametrize("type_info", ALL, ids=repr)
def test_none_is_a_value_of_every_type(type_info: Any) -> None:
    coercer = type_info.coercer()
    assert coercer is None or coercer(None) is None


@pytest.mark.parametrize(
    ("type_info", "value"),
    [
        (Types.STRING(), 1),
        (Types.INT(), 1.7),
        (Types.INT(), float("nan")),
        (Types.LONG(), Decimal("2.5")),
        (Types.LONG(), "1"),
        (Types.DOUBLE(), "1"),
        (Types.FLOAT(), None.__class__),
        (Types.BOOLEAN(), 2),
        (Types.BOOLEAN(), 1.0),
        (Types.CHAR(), "ab"),
        (Types.BIG_INT(), 1.5),
        (Types.BIG_DEC(), "1.5"),
        (Types.BIG_DEC(), Decimal("NaN")),
        (Types.BIG_DEC(), float("inf")),
        (Types.INSTANT(), 5),
        (Types.SQL_DATE(), "2020-01-01"),
        (Types.SQL_TIME(), dt.time(1, tzinfo=dt.UTC)),
        (Types.SQL_TIMESTAMP(), dt.date(2020, 1, 1)),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), "ab"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), [None]),
        (Types.LIST(Types.INT()), 5),
        (Types.MAP(Types.INT(), Types.INT()), [1]),
        (Types.TUPLE([Types.INT()]), 5),
        (Types.TUPLE([Types.INT()]), (1, 2)),
        (NAMED, ("a",)),
        (NAMED, "ab"),
        (NAMED, Row(other="a", age=1)),
    ],
    ids=repr,
)
def test_values_that_do_not_fit_are_refused(type_info: Any, value: Any) -> None:
    with pytest.raises(TypeError):
        coerced(type_info, value)


@pytest.mark.parametrize(
    ("type_info", "value"),
    [
        (Types.BYTE(), 128),
        (Types.BYTE(), -129),
        (Types.SHORT(), 43878),
        (Types.INT(), 2**31),
        (Types.INT(), -(2**31) - 1),
        (Types.INT(), 1e10),
        (Types.LONG(), 2**63),
        (Types.LONG(), 1e300),
        (Types.LONG(), np.uint64(2**63)),
        (Types.DOUBLE(), 10**400),
        (Types.ROW([Types.INT()]), Row(2**31)),
        (Types.ROW([Types.STRING(), Types.INT()]), Row(None, 2**31)),
        (Types.TUPLE([Types.STRING(), Types.SHORT()]), ("a", 2**15)),
        (Types.LIST(Types.INT()), [1, 2**31]),
        (Types.BASIC_ARRAY(Types.BYTE()), [200]),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), [1, 256]),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), [-129]),
        (Types.MAP(Types.STRING(), Types.SHORT()), {"a": 65537}),
        (Types.MAP(Types.BYTE(), Types.STRING()), {128: "a"}),
    ],
    ids=repr,
)
def test_numbers_beyond_their_types_range_overflow(type_info: TypeInformation, value: Any) -> None:
    with pytest.raises(OverflowError, match="does not fit"):
        coerced(type_info, value)


@pytest.mark.parametrize(
    "value",
    [("x", 3), ["x", 3], {"age": 3, "name": "x"}, Row("x", 3), Row(name="x", age=3), Row(age=3, name="x")],
    ids=repr,
)
def test_many_forms_make_a_named_row(value: Any) -> None:
    row = coerced(NAMED, value)
    assert row == Row(name="x", age=3)
    assert row._fields is NAMED.field_names


def test_a_list_that_became_a_row_stays_its_owners() -> None:
    values = ["x", 3]
    row = coerced(NAMED, values)
    values[0] = "y"
    assert row.name == "x"


def test_a_row_keeps_its_kind_and_missing_dict_keys_are_null() -> None:
    assert coerced(NAMED, Row.of_kind(RowKind.DELETE, "x", 3)).get_row_kind() is RowKind.DELETE
    assert coerced(NAMED, {"name": "x"}) == Row(name="x", age=None)
    with pytest.raises(TypeError, match="no field 'Age': it has name, age"):
        coerced(NAMED, {"name": "x", "Age": 3})


def test_numpys_booleans_are_numbers_as_pythons_are() -> None:
    assert coerced(Types.INT(), np.bool_(True)) == coerced(Types.INT(), True) == 1


def test_a_row_that_fits_is_not_made_anew() -> None:
    row = coerced(NAMED, ("x", 3))
    assert coerced(NAMED, row) is row
    row["age"] = 4.0
    assert coerced(NAMED, row) == Row(name="x", age=4)


def test_positions_decide_where_the_type_has_no_names() -> None:
    assert coerced(Types.ROW([Types.STRING(), Types.INT()]), Row(a="x", b=3)) == Row(f0="x", f1=3)


def test_an_error_names_the_path_to_the_field() -> None:
    nested = Types.ROW_NAMED(["outer"], [Types.ROW_NAMED(["inner"], [Types.INT()])])
    with pytest.raises(TypeError, match=r"field 'outer': field 'inner': 'x' \(str\) does not fit INT"):
        coerced(nested, (("x",),))
    with pytest.raises(
        OverflowError, match=r"field 'outer': field 'inner': 2147483648 \(int\) does not fit INT; it has"
    ):
        coerced(nested, ((2**31,),))


def test_nested_values_are_coerced() -> None:
    type_info = Types.ROW_NAMED(
        ["m", "l"], [Types.MAP(Types.STRING(), NAMED), Types.LIST(Types.TUPLE([Types.FLOAT()]))]
    )
    assert coerced(type_info, ({"k": ("x", 1)}, [[1]])) == Row(m={"k": Row(name="x", age=1)}, l=[(1.0,)])
    assert isinstance(type_info, RowTypeInfo)


def test_pickled_values_need_no_coercion() -> None:
    assert Types.PICKLED_BYTE_ARRAY().coercer() is None
    assert coerced(Types.ROW([Types.PICKLED_BYTE_ARRAY(), Types.INT()]), ({1}, 1)) == Row(f0={1}, f1=1)


def test_immutable_types_are_known() -> None:
    assert Types.TUPLE([Types.INT(), Types.STRING()]).is_immutable
    assert not Types.TUPLE([Types.LIST(Types.INT())]).is_immutable
    assert not NAMED.is_immutable
