"""Lines of NDJSON for decoders to be compared with: mostly good ones, and all kinds of odd and bad ones."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from runtime.common.typeinfo import RowTypeInfo, Types

#: columns of all types that flat records have
TYPE = RowTypeInfo(
    [Types.LONG(), Types.STRING(), Types.DOUBLE(), Types.STRING(), Types.BOOLEAN(), Types.INT(), Types.FLOAT()],
    ["n", "text", "x", "other text", "flag", "i", "f"],
)
_UNKNOWN = ("unknown", "N", "textt", "\\u006e", "te\\u0078t", "")
_ODD_VALUES = (
    *('"12"', "1.0", "1e2", "-0", "-0.0", "01", "1.", ".5", "+1", "1e400", "-1e400", "1e-400", "0e99999999999"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "2147483648"),
    *("1" * 39, "1" * 40, "1" * 400, "18446744073709551616", "0.1e1", "5e-324", "1e39", "1e23", "9007199254740993"),
    *("NaN", "Infinity", "tru", "nul", "[1, 2]", "[]", "{}", '{"n": 1}', '{"text": {"n": [null, "}"]}}', "[[[[]]]]"),
    *('"\\ud800"', '"\\udc00"', '"\\ud83d\\ude00"', '"\\u0000"', '"\\x"', '"\\"}"', '"\t"', '"\x01"', '"ü"', '"\x7f"'),
    *(
        '"text"',
        '"n"',
        '"{"',
        '"}\\n{"',
        '"1e400"',
        '", 12e345"',
        "'a'",
        "",
        " ",
        "1 2",
        "{",
        "]",
        "[" * 1100 + "]" * 1100,
    ),
)
_ENDS = ("", "", "", "", " ", "\r", "\t", "}", ",", ' {"n": 1}', '{"n": 1}', "x")
_ODD_LINES = (
    *(
        "",
        " ",
        "\t\r",
        "null",
        "[]",
        "1",
        '"a"',
        "{",
        "}",
        "{}",
        "{}{}",
        "{} {}",
        "{},{}",
        "nullnull",
        "\ufeff{}",
        "{]",
    ),
    *('{"n": 1,}', '{"n" 1}', '{"n":: 1}', "{'n': 1}", "{n: 1}", '{"n": 1 "text": "a"}', '{"n": 1}}', ' {"n": 1}'),
)

_good = st.fixed_dictionaries(
    {},
    optional={
        "n": st.integers(-(2**63), 2**63 - 1) | st.none(),
        "text": st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
        | st.none()
        | st.integers()
        | st.booleans(),
        "x": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**70), 2**70) | st.none(),
        "other text": st.text('abe019+-\\"{}:,', max_size=8)
        | st.none()
        | st.floats(allow_nan=False, allow_infinity=False),
        "flag": st.booleans() | st.none(),
        "i": st.integers(-(2**31), 2**31 - 1) | st.none(),
        "f": st.floats(width=32, allow_nan=False, allow_infinity=False) | st.none(),
        "unknown": st.none() | st.integers() | st.text('ab\\"1e', max_size=6) | st.lists(st.integers(), max_size=3),
    },
)


@st.composite
def _odd(draw: st.DrawFn) -> str:
    """A line of fields that may be of other types, come twice, or be no JSON."""
    names = st.sampled_from([*TYPE.get_field_names(), *TYPE.get_field_names(), *_UNKNOWN])
    values = st.sampled_from(["1", '"a"', "1.5", "true", "null"]) | st.sampled_from(_ODD_VALUES)
    fields = draw(st.lists(st.tuples(names, values), max_size=5))
    colon, comma = draw(st.sampled_from([(": ", ", "), (":", ","), (" :", " ,"), (":\t", ",")]))
    return "{" + comma.join(f'"{name}"{colon}{value}' for name, value in fields) + "}" + draw(st.sampled_from(_ENDS))


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """One line, without its end."""
    kind = draw(st.sampled_from(["good", "good", "good", "odd", "odd", "line", "bytes"]))
    if kind == "good":
        separators = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
        return json.dumps(draw(_good), separators=separators, ensure_ascii=draw(st.booleans())).encode()
    if kind == "odd":
        return draw(_odd()).encode(errors="surrogatepass")
    if kind == "line":
        return draw(st.sampled_from(_ODD_LINES)).encode()
    bad = draw(st.sampled_from([b"\xff", b"\xc3", b"\xed\xa0\x80", b"\x00", b"\x1f", b"\\", b'"']))
    name = draw(st.sampled_from([b"n", b"text", b"other text", b"unknown"]))
    return b'{"n": 1, "' + name + b'": "a' + bad + b'b"}'


blocks = st.lists(lines(), min_size=1, max_size=6).map(lambda made: b"\n".join(made) + b"\n")
"""Several lines, as a reader hands them on."""
