"""Lines that a PyFlink program prints differently here than on Flink, and the reasons.

The goldens hold what Flink printed. `expected_lines` puts in their place what is listed here; a line that Flink did not
print is an error, so that the list can hold nothing that is no longer true. docs/pyflink-differences.md tells users.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MISFIT = "PyFlink names whatever its coder tripped over; here a value that does not fit its type is always a TypeError"
LOSES = "PyFlink drops a part of the value; here the value is refused"
TAKEN = "PyFlink refuses a value that has all that the type needs; here it is converted"
NULLS = "PyFlink has no nulls here; here every type is nullable"
IN_STATE = (
    "values in state take their type's form at once, rows their fields' names; in PyFlink when they leave its cache"
)
FLOAT_TEXTS = "PyFlink reads a FLOAT back from text, and knows neither nan nor inf nor None there"
PICKLED = "PyFlink hands out keys, records and fields without a type as their pickled bytes"
UNORDERED = "dicts and sets have no order of their own; PyFlink compares their pickled bytes"
BROKEN = "PyFlink cannot do it: its Java side fails or gives back something else"


@dataclass(frozen=True)
class Difference:
    """Lines of one program that differ for one reason.

    Args:
        reason: why it is so on purpose.
        lines: beginning of a line → (the rest of it that Flink printed, the rest that is printed here).
    """

    reason: str
    lines: Mapping[str, tuple[str, str]]


def expected_lines(recorded: Sequence[str], differences: Sequence[Difference]) -> list[str]:
    """Return the expected output of a program here.

    Raises:
        ValueError: Flink did not print a line that is said to differ, or it does not differ.
    """
    lines = list(recorded)
    for difference in differences:
        for beginning, (flinks, ours) in difference.lines.items():
            old, new = beginning + flinks, beginning + ours
            if old not in lines:
                raise ValueError(f"Flink did not print {old!r}")
            if old == new:
                raise ValueError(f"no difference: {old!r}")
            lines[lines.index(old)] = new
    return lines


DIFFERENCES: dict[str, list[Difference]] = {
    "avro_files": [
        Difference(
            "of a union's branches, PyFlink takes the last one that a value fits, and whole numbers fit doubles",
            {"numbers: null [{'a': ": ("1.0}, {'a': 2.5}]", "1}, {'a': 2.5}]")},
        ),
        Difference(
            "SQL_TIME has milliseconds",
            {"time in micros: null [{'a': datetime.time(12, 34, 56, ": ("789123)}]", "789000)}]")},
        ),
        Difference(
            BROKEN,
            {
                "decimal: null [{'a': ": ("Decimal('0.00')}]", "Decimal('1.50')}]"),
                "array and more: null [{'a': [1, 2], 'z': ": ("0}]", "9}]"),
            },
        ),
    ],
    "big_integers": [
        Difference(
            "PyFlink writes 64 bits, which its Java side cannot take for a BigInteger: the job fails or loses it",
            {
                "BigInteger of [1]: ": ("[]", "[1]"),
                "BigInteger of [4611686018427387904]: ": ("failed", "[4611686018427387904]"),
                "BigInteger of [9223372036854775808]: ": ("raised OverflowError", "[9223372036854775808]"),
                "BigInteger of [1.5]: ": ("[]", "raised TypeError"),
            },
        )
    ],
    "characters": [
        Difference(
            "PyFlink gives back the character 0 for every CHAR, and takes texts of any length",
            {
                "Char of ['x', 'é', '日']: ": ("['\\x00', '\\x00', '\\x00']", "['x', 'é', '日']"),
                "Char of ['ab']: ": ("['\\x00']", "raised TypeError"),
            },
        ),
        Difference(
            MISFIT,
            {
                "Char of [65]: ": ("raised AttributeError", "raised TypeError"),
                "String of [1]: ": ("raised AttributeError", "raised TypeError"),
                "String of [b'x']: ": ("raised AttributeError", "raised TypeError"),
            },
        ),
    ],
    "collection_conversions": [
        Difference(
            "from_collection of PyFlink wraps integers around",
            {
                "Short of [1, 43878]: ": ("[1, -21658]", "raised OverflowError"),
                "Integer of [2147483648]: ": ("[-2147483648]", "raised OverflowError"),
            },
        )
    ],
    "csv_types": [
        Difference(
            "the same number, written otherwise",
            {
                "DECIMAL read: ": (
                    "[\"Decimal('1.500000000000000000')\", \"Decimal('100000.000000000000000000')\", \"Decimal('1.000000000E-9')\"]",  # noqa: E501
                    "[\"Decimal('1.5')\", \"Decimal('1E+5')\", \"Decimal('1E-9')\"]",
                ),
            },
        ),
    ],
    "dates_and_times": [
        Difference(
            "PyFlink goes by way of a Java Date, which changes the calendar in 1582",
            {"DateTypeInfo of [datetime.date(1, 1, 1)]: ": ("[datetime.date(1, 1, 3)]", "[datetime.date(1, 1, 1)]")},
        ),
        Difference(MISFIT, {"DateTypeInfo of ['2020-01-01']: ": ("raised AttributeError", "raised TypeError")}),
        Difference(
            "PyFlink collects times in seconds, and cannot collect timestamps",
            {
                "TimeTypeInfo of [datetime.time(1, 2, 3, 456789)]: ": (
                    "[datetime.time(1, 2, 3)]",
                    "[datetime.time(1, 2, 3, 456000)]",
                ),
                "TimestampTypeInfo of [datetime.datetime(2020, 1, 2, 3, 4, 5, 678000)]: ": (
                    "raised AttributeError",
                    "[datetime.datetime(2020, 1, 2, 3, 4, 5, 678000)]",
                ),
            },
        ),
    ],
    "decimal_arithmetic": [
        Difference(
            "Java's BigDecimal has no negative zero",
            {
                "rounded: ": (
                    "['0.10', '12345678901234567890.12', '0.00', '2.50']",
                    "['0.10', '12345678901234567890.12', '-0.00', '2.50']",
                ),
            },
        ),
        Difference(
            MISFIT,
            {
                "infinite: ": (
                    "failed",
                    "raised TypeError",
                ),
            },
        ),
    ],
    "decimals": [
        Difference(
            "the same number, written otherwise",
            {
                "BigDecimal of [Decimal('0.1234567890123456789012345'), Decimal('-1E+3'), Decimal('1.50')]: ": (
                    "[Decimal('0.1234567890123456789012345'), Decimal('-1000'), Decimal('1.50')]",
                    "[Decimal('0.1234567890123456789012345'), Decimal('-1E+3'), Decimal('1.50')]",
                ),
                "TupleTypeInfo(String, BigDecimal) of [('a', Decimal('1E-25'))]: ": (
                    "[('a', Decimal('1.00E-25'))]",
                    "[('a', Decimal('1E-25'))]",
                ),
                "ListTypeInfo<BigDecimal> of [[Decimal('1E-22')]]: ": (
                    "[[Decimal('1.00E-22')]]",
                    "[[Decimal('1E-22')]]",
                ),
            },
        ),
        Difference(LOSES, {"BigDecimal of ['1.5']: ": ("[Decimal('1.5')]", "raised TypeError")}),
        Difference(MISFIT, {"BigDecimal of [Decimal('NaN')]: ": ("failed", "raised TypeError")}),
    ],
    "dict_keys": [
        Difference(
            UNORDERED,
            {
                "by a MAP: ": (
                    "[{'a': 1}, {'a': 2}, {'a': 1}]",
                    "failed",
                ),
            },
        ),
        Difference(
            "PyFlink sums fields of tuples and rows only",
            {
                "sum of an item: ": (
                    "raised TypeError",
                    "[{'a': 1}, {'a': 3}, {'a': 4}]",
                ),
            },
        ),
    ],
    "equal_keys": [
        Difference(
            "keys of one type that are equal are one key; in PyFlink -0.0 and 0.0 are two, and so are decimals with other zeros",  # noqa: E501
            {
                "zeros: ": (
                    "['0.0: 1', \"'-': 1\", '-0.0: 1', \"'-': 2\", '0: 1', \"'-': 3\", '0.0: 2']",
                    "['0.0: 1', \"'-': 1\", '0.0: 2', \"'-': 2\", '0: 1', \"'-': 3\", '0.0: 3']",
                ),
                "decimals: ": (
                    "[\"Decimal('1.0'): 1\", \"'-': 1\", \"Decimal('1.00'): 1\", \"'-': 2\", \"Decimal('1.0'): 2\"]",
                    "[\"Decimal('1.0'): 1\", \"'-': 1\", \"Decimal('1.0'): 2\", \"'-': 2\", \"Decimal('1.0'): 3\"]",
                ),
                "Double: ": (
                    "['1.0: 1', '0.0: 1', '1.0: 2', '2.0: 1', '1.0: 3', '2.0: 2', '-0.0: 1']",
                    "['1.0: 1', '0.0: 1', '1.0: 2', '2.0: 1', '1.0: 3', '2.0: 2', '0.0: 2']",
                ),
                "BigDecimal: ": (
                    "[\"Decimal('1.0'): 1\", \"Decimal('0'): 1\", \"Decimal('1.00'): 1\", \"Decimal('0'): 2\", \"Decimal('1.0'): 2\", \"Decimal('0'): 3\", \"Decimal('1'): 1\"]",  # noqa: E501
                    "[\"Decimal('1.0'): 1\", \"Decimal('0'): 1\", \"Decimal('1.0'): 2\", \"Decimal('0'): 2\", \"Decimal('1.0'): 3\", \"Decimal('0'): 3\", \"Decimal('1.0'): 4\"]",  # noqa: E501
                ),
            },
        ),
    ],
    "file_sink_buckets": [
        Difference(
            "part files say in their names what they hold",
            {
                "csv/0000-00-00--00/part-ID": (
                    ": '1\\n2\\n3\\n'",
                    ".csv: '1\\n2\\n3\\n'",
                ),
                "csv by day/0000-00-00/part-ID": (
                    ": '1\\n2\\n3\\n'",
                    ".csv: '1\\n2\\n3\\n'",
                ),
                "csv, one bucket/part-ID": (
                    ": '1\\n2\\n3\\n'",
                    ".csv: '1\\n2\\n3\\n'",
                ),
            },
        ),
    ],
    "float_values": [
        Difference(
            FLOAT_TEXTS,
            {
                "Float of [nan]: ": ("raised ValueError", "[nan]"),
                "Float of [1e+39]: ": ("raised ValueError", "[inf]"),
                "RowTypeInfo(Float, ListTypeInfo<Float>, BasicArrayTypeInfo<Float>) of [<Row(1.1, [1.1, 0.1], [3e+38, None])>]: ": (  # noqa: E501
                    "raised ValueError",
                    "[Row(f0=1.1, f1=[1.1, 0.1], f2=[3e+38, None])]",
                ),
            },
        )
    ],
    "floats_from_others": [
        Difference(
            LOSES,
            {
                "Boolean of [2]: ": ("[True]", "raised TypeError"),
                "Boolean of [1.5]: ": ("[True]", "raised TypeError"),
            },
        )
    ],
    "floats_to_integers": [
        Difference(
            LOSES,
            {
                "Long of [0.5, -1.5, 1e-300]: ": (
                    "[0, -1, 0]",
                    "raised TypeError",
                ),
                "Long of [Decimal('4.5')]: ": (
                    "[4]",
                    "raised TypeError",
                ),
            },
        ),
    ],
    "instants": [
        Difference(
            BROKEN,
            {
                "Instant of [Instant<0, 0>, Instant<1600000000, 123456789>, Instant<-1, 999999999>]: ": (
                    "failed",
                    "[Instant<0, 0>, Instant<1600000000, 123456789>, Instant<-1, 999999999>]",
                ),
                "Instant of [5]: ": ("raised AttributeError", "raised TypeError"),
            },
        )
    ],
    "integers_from_others": [
        Difference(LOSES, {"Integer of [1.7]: ": ("[1]", "raised TypeError")}),
        Difference(MISFIT, {"Integer of [nan]: ": ("raised ValueError", "raised TypeError")}),
        Difference(NULLS, {"Short of [None]: ": ("failed", "[None]")}),
    ],
    "keyed_results": [
        Difference(
            PICKLED,
            {
                "without a key type: ": (
                    "[Row(f0=bytearray(b'\\x80\\x05K\\x01.'), f1=3), Row(f0=bytearray(b'\\x80\\x05K\\x01.'), f1=1), Row(f0=bytearray(b'\\x80\\x05K\\x00.'), f1=2)]",  # noqa: E501
                    "[Row(f0=1, f1=3), Row(f0=1, f1=1), Row(f0=0, f1=2)]",
                ),
                "untyped: ": (
                    "[Row(f0=bytearray(b'\\x80\\x05\\x95\\x05\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x8c\\x01a\\x94.'), f1=bytearray(b'\\x80\\x05\\x95\\t\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x8c\\x01a\\x94K\\x01\\x86\\x94.')), Row(f0=bytearray(b'\\x80\\x05\\x95\\x05\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x8c\\x01b\\x94.'), f1=bytearray(b'\\x80\\x05\\x95\\t\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x8c\\x01b\\x94K\\x02\\x86\\x94.'))]",  # noqa: E501
                    "[Row(f0='a', f1=('a', 1)), Row(f0='b', f1=('b', 2))]",
                ),
            },
        )
    ],
    "keyed_results_by_type": [
        Difference(
            FLOAT_TEXTS,
            {
                "records of many types: ": (
                    "raised ValueError",
                    "[Row(f0=1, f1=({'a': 1}, Row(k=1.1))), Row(f0=0, f1=({}, Row(k=None)))]",
                ),
            },
        ),
    ],
    "list_and_map_state_types": [
        Difference(
            IN_STATE,
            {
                "[('n', 1)] ": ("[<Row(1)>, <Row(None)>]", "[Row(f0=1), Row(f0=None)]"),
                "[('n', 1), ('n', 2)] ": (
                    "[<Row(1)>, <Row(None)>, <Row(2)>, <Row(None)>]",
                    "[Row(f0=1), Row(f0=None), Row(f0=2), Row(f0=None)]",
                ),
            },
        )
    ],
    "lists_and_arrays": [
        Difference(TAKEN, {"ListTypeInfo<Integer> of [(1, 2)]: ": ("raised TypeError", "[[1, 2]]")}),
        Difference(
            "bytes are bytes here, collected too, and a list of integers does for them",
            {
                "PrimitiveArrayTypeInfo<Byte> of [b'ab']: ": ("[[97, 98]]", "[b'ab']"),
                "PrimitiveArrayTypeInfo<Byte> of [[1, 2]]: ": ("raised TypeError", "[b'\\x01\\x02']"),
            },
        ),
        Difference(
            MISFIT, {"MapTypeInfo<String, Integer> of [[('a', 1)]]: ": ("raised AttributeError", "raised TypeError")}
        ),
    ],
    "map_contents": [
        Difference(
            FLOAT_TEXTS,
            {
                "RowTypeInfo(MapTypeInfo<String, String>, MapTypeInfo<String, Double>, MapTypeInfo<String, Float>, MapTypeInfo<String, Boolean>, MapTypeInfo<String, BigDecimal>, MapTypeInfo<String, DateTypeInfo>) of [<Row({'a': ''}, {'a': 1}, {'a': 1.1}, {'a': False}, {'a': Decimal('1.10')}, {'a': datetime.date(2020, 1, 1)})>, <Row({'n': None}, {'n': None}, {'n': None}, {'n': None}, {'n': None}, {'n': None})>]: ": (  # noqa: E501
                    "raised ValueError",
                    "[Row(f0={'a': ''}, f1={'a': 1.0}, f2={'a': 1.1}, f3={'a': False}, f4={'a': Decimal('1.10')}, f5={'a': datetime.date(2020, 1, 1)}), Row(f0={'n': None}, f1={'n': None}, f2={'n': None}, f3={'n': None}, f4={'n': None}, f5={'n': None})]",  # noqa: E501
                ),
            },
        ),
        Difference(
            "PyFlink's maps go by way of Java's, which lose their order",
            {
                "RowTypeInfo(MapTypeInfo<Byte, Integer>, MapTypeInfo<Long, Integer>, MapTypeInfo<Boolean, Integer>, MapTypeInfo<Double, Integer>, MapTypeInfo<DateTypeInfo, Integer>) of [<Row({-128: 1}, {1099511627776: 2}, {True: 1, False: 0}, {0.5: 1}, {datetime.date(2020, 1, 1): 1})>]: ": (  # noqa: E501
                    "[Row(f0={-128: 1}, f1={1099511627776: 2}, f2={False: 0, True: 1}, f3={0.5: 1}, f4={datetime.date(2020, 1, 1): 1})]",  # noqa: E501
                    "[Row(f0={-128: 1}, f1={1099511627776: 2}, f2={True: 1, False: 0}, f3={0.5: 1}, f4={datetime.date(2020, 1, 1): 1})]",  # noqa: E501
                ),
            },
        ),
        Difference(
            NULLS,
            {
                "MapTypeInfo<String, Integer> of [{None: 1}]: ": (
                    "raised AttributeError",
                    "[{None: 1}]",
                ),
            },
        ),
    ],
    "map_state_nulls": [
        Difference(
            IN_STATE,
            {
                "RowTypeInfo(Integer): ": (
                    "['[False, True, False]', 'None <Row(None)> None', \"['none', 'some'] ['<Row(None)>', 'None'] False\", '[False, True, False]', 'None <Row(None)> None', \"['none', 'some'] ['<Row(None)>', 'None'] False\", \"[('none', <Row(None)>)] True\"]",  # noqa: E501
                    "['[False, True, False]', 'None Row(f0=None) None', \"['none', 'some'] ['None', 'Row(f0=None)'] False\", '[False, True, False]', 'None Row(f0=None) None', \"['none', 'some'] ['None', 'Row(f0=None)'] False\", \"[('none', Row(f0=None))] True\"]",  # noqa: E501
                ),
            },
        ),
    ],
    "nested_rows": [
        Difference(
            NULLS,
            {
                "RowTypeInfo(name: String, point: RowTypeInfo(x: Integer, y: Double)) of [<Row('a', <Row(1, 2)>)>, Row(point=Row(y=2.0, x=1), name='c'), <Row('d', None)>, <Row(None, <Row(None, None)>)>]: ": (  # noqa: E501
                    "raised TypeError",
                    "[Row(name='a', point=Row(x=1, y=2.0)), Row(name='c', point=Row(x=1, y=2.0)), Row(name='d', point=None), Row(name=None, point=Row(x=None, y=None))]",  # noqa: E501
                ),
            },
        ),
    ],
    "nulls_by_type": [
        Difference(
            NULLS,
            {
                "RowTypeInfo(ListTypeInfo<Integer>, RowTypeInfo(Integer)) of [<Row(None, <Row(None)>)>, <Row([], None)>]: ": (  # noqa: E501
                    "raised TypeError",
                    "[Row(f0=None, f1=Row(f0=None)), Row(f0=[], f1=None)]",
                ),
                "ListTypeInfo<Integer> of [[1, None]]: ": ("raised TypeError", "[[1, None]]"),
                "TupleTypeInfo(Integer, String) of [(1, None)]: ": ("raised AttributeError", "[(1, None)]"),
                "Integer of [None]: ": ("failed", "[None]"),
                "PickledByteArrayTypeInfo of [None, [None], (None, {'a': None})]: ": (
                    "failed",
                    "[None, [None], (None, {'a': None})]",
                ),
            },
        )
    ],
    "nulls_in_rows": [
        Difference(
            "PyFlink does not convert values between functions of one chain",
            {
                "chained: ": (
                    "['[False]', '[0]', '[-1]', '[0]', '[1099511627776]', '[-0.0]', \"['']\", \"[Decimal('0.00')]\", '[datetime.date(1970, 1, 1)]', '[datetime.time(0, 0)]', '[{}]', '[[]]', \"[['']]\", '[[0]]', '[<Row(None)>]', '[]']",  # noqa: E501
                    "['[False]', '[0]', '[-1]', '[0]', '[1099511627776]', '[-0.0]', \"['']\", \"[Decimal('0.00')]\", '[datetime.date(1970, 1, 1)]', '[datetime.time(0, 0)]', '[{}]', '[[]]', \"[['']]\", '[[0]]', '[Row(f0=None)]', '[]']",  # noqa: E501
                ),
            },
        ),
    ],
    "outputs_of_functions": [
        Difference(
            "a process function that returns None emits nothing here",
            {
                "process: ": (
                    "raised TypeError",
                    "[Row(f0=1, f1=[1]), Row(f0=0, f1=None), Row(f0=1, f1=None), Row(f0=2, f1=None)]",
                )
            },
        )
    ],
    "pickled_fields": [
        Difference(
            PICKLED,
            {
                "collected: ": (
                    "[Row(f0=bytearray(b'\\x80\\x05\\x95\\r\\x00\\x00\\x00\\x00\\x00\\x00\\x00}\\x94\\x8c\\x01a\\x94K\\x01N\\x86\\x94s.'), f1=1), Row(f0=bytearray(b'\\x80\\x05\\x95\\x10\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x8a\\r\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x10.'), f1=None), Row(f0=None, f1=3)]",  # noqa: E501
                    "[Row(f0={'a': (1, None)}, f1=1), Row(f0=1267650600228229401496703205376, f1=None), Row(f0=None, f1=3)]",  # noqa: E501
                ),
            },
        ),
    ],
    "row_shapes": [
        Difference(
            LOSES, {"RowTypeInfo(Integer, Integer) of [<Row(1, 2, 3)>]: ": ("[Row(f0=1, f1=2)]", "raised TypeError")}
        ),
        Difference(
            TAKEN,
            {
                "RowTypeInfo(Integer, String) of [(1, 'a')]: ": ("raised AttributeError", "[Row(f0=1, f1='a')]"),
                "RowTypeInfo(a: Integer) of [{'a': 1}]: ": ("raised AttributeError", "[Row(a=1)]"),
            },
        ),
        Difference(
            MISFIT,
            {"RowTypeInfo(a: Integer, b: Integer) of [Row(c=1, a=2)]: ": ("raised Exception", "raised TypeError")},
        ),
    ],
    "state_conversions": [
        Difference(
            IN_STATE,
            {
                "Integer of 2.0: ": (
                    "['value 2.0', 'list [2, 2]', 'map 2.0 [2]', 'reducing 2.0', 'aggregating 2.0']",
                    "['value 2', 'list [2, 2]', 'map 2 [2]', 'reducing 2', 'aggregating 2']",
                ),
                "Long of True: ": (
                    "['value True', 'list [1, 1]', 'map True [1]', 'reducing True', 'aggregating True']",
                    "['value 1', 'list [1, 1]', 'map 1 [1]', 'reducing 1', 'aggregating 1']",
                ),
                "Boolean of 1: ": (
                    "['value 1', 'list [True, True]', 'map 1 [True]', 'reducing 1', 'aggregating 1']",
                    "['value True', 'list [True, True]', 'map True [True]', 'reducing True', 'aggregating True']",
                ),
                "Double of 3: ": (
                    "['value 3', 'list [3.0, 3.0]', 'map 3 [3.0]', 'reducing 3', 'aggregating 3']",
                    "['value 3.0', 'list [3.0, 3.0]', 'map 3.0 [3.0]', 'reducing 3.0', 'aggregating 3.0']",
                ),
                "Float of 0.1: ": (
                    "['value 0.1', 'list [0.10000000149011612, 0.10000000149011612]', 'map 0.1 [0.10000000149011612]', 'reducing 0.1', 'aggregating 0.1']",  # noqa: E501
                    "['value 0.10000000149011612', 'list [0.10000000149011612, 0.10000000149011612]', 'map 0.10000000149011612 [0.10000000149011612]', 'reducing 0.10000000149011612', 'aggregating 0.10000000149011612']",  # noqa: E501
                ),
                "BigDecimal of 2: ": (
                    "['value 2', \"list [Decimal('2'), Decimal('2')]\", \"map 2 [Decimal('2')]\", 'reducing 2', 'aggregating 2']",  # noqa: E501
                    "[\"value Decimal('2')\", \"list [Decimal('2'), Decimal('2')]\", \"map Decimal('2') [Decimal('2')]\", \"reducing Decimal('2')\", \"aggregating Decimal('2')\"]",  # noqa: E501
                ),
                "ListTypeInfo<Double> of [1, 2]: ": (
                    "['value [1, 2]', 'list [[1.0, 2.0], [1.0, 2.0]]', 'map [1, 2] [[1.0, 2.0]]', 'reducing [1, 2]', 'aggregating [1, 2]']",  # noqa: E501
                    "['value [1.0, 2.0]', 'list [[1.0, 2.0], [1.0, 2.0]]', 'map [1.0, 2.0] [[1.0, 2.0]]', 'reducing [1.0, 2.0]', 'aggregating [1.0, 2.0]']",  # noqa: E501
                ),
                "TupleTypeInfo(Integer, Float) of (True, 1): ": (
                    "['value (True, 1)', 'list [(1, 1.0), (1, 1.0)]', 'map (True, 1) [(1, 1.0)]', 'reducing (True, 1)', 'aggregating (True, 1)']",  # noqa: E501
                    "['value (1, 1.0)', 'list [(1, 1.0), (1, 1.0)]', 'map (1, 1.0) [(1, 1.0)]', 'reducing (1, 1.0)', 'aggregating (1, 1.0)']",  # noqa: E501
                ),
                "RowTypeInfo(a: Integer, b: String) of Row(b='x', a=1.0): ": (
                    "[\"value Row(b='x', a=1.0)\", \"list [Row(a=1, b='x'), Row(a=1, b='x')]\", \"map Row(b='x', a=1.0) [Row(a=1, b='x')]\", \"reducing Row(b='x', a=1.0)\", \"aggregating Row(b='x', a=1.0)\"]",  # noqa: E501
                    "[\"value Row(a=1, b='x')\", \"list [Row(a=1, b='x'), Row(a=1, b='x')]\", \"map Row(a=1, b='x') [Row(a=1, b='x')]\", \"reducing Row(a=1, b='x')\", \"aggregating Row(a=1, b='x')\"]",  # noqa: E501
                ),
                "RowTypeInfo(a: Integer, b: String) of <Row(1, None)>: ": (
                    "['value <Row(1, None)>', 'list [Row(a=1, b=None), Row(a=1, b=None)]', 'map <Row(1, None)> [Row(a=1, b=None)]', 'reducing <Row(1, None)>', 'aggregating <Row(1, None)>']",  # noqa: E501
                    "['value Row(a=1, b=None)', 'list [Row(a=1, b=None), Row(a=1, b=None)]', 'map Row(a=1, b=None) [Row(a=1, b=None)]', 'reducing Row(a=1, b=None)', 'aggregating Row(a=1, b=None)']",  # noqa: E501
                ),
            },
        ),
    ],
    "state_that_does_not_fit": [
        Difference(
            MISFIT,
            {
                "value of another type: ": ("raised AttributeError", "raised TypeError"),
                "list update: ": ("raised AttributeError", "raised TypeError"),
            },
        )
    ],
    "state_updates": [
        Difference(
            NULLS,
            {
                "update to None: ": (
                    "raised AttributeError",
                    "['None', 'None', 'None', 'None', 'None', 'None']",
                ),
            },
        ),
    ],
    "sums_that_fail": [Difference(LOSES, {"BOOLEAN: ": ("[True, True]", "raised TypeError")})],
    "times_in_others": [
        Difference(
            "SQL_TIMESTAMP keeps microseconds; in PyFlink, milliseconds",
            {
                "row: ": (
                    "['Row(f0=datetime.date(2020, 2, 29), f1=datetime.time(12, 34, 56, 789000), f2=datetime.datetime(2020, 1, 2, 3, 4, 5, 678000))', 'Row(f0=datetime.date(1970, 1, 1), f1=datetime.time(0, 0), f2=datetime.datetime(1970, 1, 1, 0, 0))', 'Row(f0=None, f1=None, f2=None)']",  # noqa: E501
                    "['Row(f0=datetime.date(2020, 2, 29), f1=datetime.time(12, 34, 56, 789000), f2=datetime.datetime(2020, 1, 2, 3, 4, 5, 678901))', 'Row(f0=datetime.date(1970, 1, 1), f1=datetime.time(0, 0), f2=datetime.datetime(1970, 1, 1, 0, 0))', 'Row(f0=None, f1=None, f2=None)']",  # noqa: E501
                ),
                "tuple: ": (
                    "['(datetime.date(2020, 2, 29), datetime.time(12, 34, 56, 789000), datetime.datetime(2020, 1, 2, 3, 4, 5, 678000))']",  # noqa: E501
                    "['(datetime.date(2020, 2, 29), datetime.time(12, 34, 56, 789000), datetime.datetime(2020, 1, 2, 3, 4, 5, 678901))']",  # noqa: E501
                ),
                "lists: ": (
                    "['Row(f0=[datetime.date(2020, 2, 29), datetime.date(1970, 1, 1)], f1=[datetime.datetime(2020, 1, 2, 3, 4, 5, 678000)])', 'Row(f0=[], f1=[])']",  # noqa: E501
                    "['Row(f0=[datetime.date(2020, 2, 29), datetime.date(1970, 1, 1)], f1=[datetime.datetime(2020, 1, 2, 3, 4, 5, 678901)])', 'Row(f0=[], f1=[])']",  # noqa: E501
                ),
                "maps: ": (
                    "[\"Row(f0={'at': datetime.datetime(2020, 1, 2, 3, 4, 5, 678000)}, f1={datetime.date(2020, 2, 29): datetime.time(12, 34, 56, 789000)})\"]",  # noqa: E501
                    "[\"Row(f0={'at': datetime.datetime(2020, 1, 2, 3, 4, 5, 678901)}, f1={datetime.date(2020, 2, 29): datetime.time(12, 34, 56, 789000)})\"]",  # noqa: E501
                ),
            },
        ),
    ],
    "timestamps_from_others": [Difference(MISFIT, {"nan: ": ("raised ValueError", "raised TypeError")})],
    "tuple_shapes": [
        Difference(LOSES, {"TupleTypeInfo(Integer, Integer) of [(1, 2, 3)]: ": ("[(1, 2)]", "raised TypeError")}),
        Difference(
            TAKEN,
            {
                "TupleTypeInfo(Integer, Integer) of [[1, 2]]: ": ("raised TypeError", "[(1, 2)]"),
                "TupleTypeInfo(Integer, String) of [<Row(1, 'a')>]: ": ("raised TypeError", "[(1, 'a')]"),
            },
        ),
    ],
    "unions_of_types": [
        Difference(
            "PyFlink gives rows of other names the names of the first stream; here the union is refused",
            {
                "rows of other names: ": (
                    "[\"Row(a=1, b='x')\", \"Row(a=2, b='y')\"]",
                    "refused",
                ),
            },
        ),
    ],
    "untyped_keys": [
        Difference(
            "PyFlink takes keys that are equal in Python for the same one if they follow each other directly",
            {"numbers: ": ("[1, [1, 1.0], [[1, 1.0], True]]", "[1, 1.0, True]")},
        ),
        Difference(
            UNORDERED,
            {
                "dicts: ": ("[{'a': 1}, {'a': 2}]", "failed"),
                "sets: ": ("[{1}, [{1}, {1}]]", "failed"),
            },
        ),
    ],
}

DIFFERENCES_IN_BATCH: dict[str, list[Difference]] = {
    "word_count": [
        Difference(
            "a reduce behind a reduce takes keys as they come, and they come in another order",
            {"(4,": ("moon+goes+tide+tide)", "tide+tide+goes+moon)"), "(5,": ("looks+comes)", "comes+looks)")},
        )
    ],
}
"""The same of programs that are executed as batches."""
