"""Records what PyFlink's `Configuration.parse_list_value` makes of texts: pyflink_list_values.json.

Not run by the tests. Needs an installed apache-flink 2.3.0 (it was recorded with ruamel.yaml 0.19.1), and no Java:

    PYTHON_WITH_PYFLINK tests/common/record_list_values.py

Each entry has the text and either the `repr` of what it returned, or the name of the exception that it raised. Imports
nothing of the runtime.
"""

from __future__ import annotations

import json
from pathlib import Path

from pyflink.common import Configuration

# fmt: off
TEXTS = (
    # no list: cut at semicolons, once YAML has accepted the text
    "x", "a;b;c", "a; b;", ";a;", "a,b", "1", "null", "~", "true", "'a;b'", '"a;b";c', "'a", '"a', "   ", "\n", "# x",
    "a;b # c", "a: b", "{a: b}", "{", "]", "a: b: c", "@x", "`x`", "%x", "&x", "*x", "a\tb", "\ta",
    "file:///a.jar;file:///b.jar", "C:\\a;D:\\b", "a\n;b", "---\na;b", "key:\n- a", "-", "-a", "- ", "--", "---",
    "...", "!!str [a]", "|\n a;b", "? a",
    # flow lists
    "[a, b, c]", "[]", "[ ]", "[,]", "[a,]", "[a,,b]", "[a b, c d]", "[a", "[a]]", "[a] b", "[a];[b]", "[a]\n",
    "  [a]", "[a, # x\n b]", "[a] # x", "[a#b, c #d\n]", "[\n  a,\n  b\n]", "[a\nb]", "[a\n\nb]", "[[a, b], [c]]",
    "[a, {b: c, d}]", "[a: b]", "[a:b]", "[a : b, c]", "[http://a:1, b]", "['a': b]", '["a":b]', "[{a: 1, a: 2}]",
    "[? a : b]", "[a;b, c]", '[\'a\', "b"]', "['a, b', c]", "['it''s']", '["\\x41\\u00e9\\n\\t\\\\"]', '["\\q"]',
    "['a\n b']", '["a\\\n  b"]', "['a' b]", "['']", '[""]', '[\'1\', "true", \'null\']',
    "[\xe9, \u65e5\u672c, \U0001f600]", "[\x01]", "[a\ufeff]", "[a\u2028b]", "[a\x85b]", "[-, a]", "[- a]", "[-a, --]",
    "[@a]", "[a@b, c%d]", "[%a]", "[`a`]", "[&x a, *x]", "[*x]", "[&x [a], *x]", "[!!str 1]", "[!x a]",
    "[!!int '5', !!float '1']", "[!!binary aGk=]", "[!!set {a}]", "[!!python/name:os.system ]", "[!!omap [a: 1]]",
    "[{<<: {a: 1}, b: 2}]", "[{[a]: b}]", "[{{a: b}: c}]", "[{1: a, null: b, 1.0: c}]", "[<<]", "[=]", "[{<<: 1}]",
    "[{=: 1}]", "[{a: 1, <<: [{a: 2, b: 3}, {b: 4}]}]",
    "[!!map {a: 1, b: 1}, !!seq [a], !!bool true, !!timestamp 2001-01-01]", "[!!float nan]", "[!!int x]",
    "[!!bool yes]", "[!!bool x]", "[!!null x]", "[!!pairs [a: 1, a: 2]]", "- !!omap\n  - a: 1\n  - b: 2",
    "[!<tag:yaml.org,2002:int> '5']", "[! 1, !!str null]", "[&x a, &x b, *x]", "[&a-b a, *a-b]", "[&.x a, *.x]",
    "[& a]",
    "[&*x? +, *x]", "[&a:b]",
    "[.5e+1, 1e+1_0, +.5, -1.5e-3, 0x1.8]", "[a\tb]", "[a\t, b]", "[a,\tb]", "[\ta]", "a\t", "a;b\t", "'a\tb'",
    "['a\tb']", "- a\t", "- a \t# b", "[a \tb]", "- |\n\ta", "- |\n  a\tb", "-  a\n-  b\n\t", "[a]\t", "[\n\ta]",
    "[{a: b}, {}]",
    # scalars
    "[1, +2, -3, 0, -0, 007, 08, 1_000, _1, 1_]", "[0x10, 0XAB, -0xf, 0x]", "[0o17, 0o8, 0O7, 017]",
    "[0b101, 0b2, -0b1]", "[1.5, 1., .5, -.5, 1e3, 1E-3, 1.e+3, .5e3, .5e+3, 1_0.5, e3, 1e, 0.1.2]",
    "[.inf, -.INF, +.Inf, inf, .iNf]", "[.nan, .NaN, .NAN, nan, NaN, -.nan]",
    "[true, True, TRUE, tRUE, false, False, FALSE]", "[yes, no, on, off, y, n, Yes, NO]",
    "[null, Null, NULL, nUll, ~, none, None]", "[1:30, 190:20:30, 12:30:45]", "[_, +]", "[__, .]", "[-, -_]", "[-_]",
    "[._]", "[9223372036854775808]", "[2001-12-14, 2001-1-1]", "[2001-13-45]",
    "[2001-12-14t21:59:43.10-05:00, 2001-12-14 21:59:43.1 Z, 2001-12-14 21:59:43]", "[2001-12-14T21:59:43.123456789Z]",
    "[1 2, 1;2, 1 # 2\n]", "[infinity, 1_2_3, 1__2, 0_8, 0x_1, 0b_1, 0o_7]", "[._5, 1._5]",
    # block lists
    "- a\n- b", "- a\n- b\n", "- a\n\n\n- b", "  - a\n  - b", "- a\n - b", " - a\n- b", "- a\n  - b",
    "- - a\n  - b\n- c", "-\n- a\n-", "-\n  a\n- b", "- a # x\n# y\n- b#c", "# x\n- a", "- a\nb", "- a\n  b\n- c",
    "- a;b\n- c", "- [a, b]\n- {c: d}", "- a: 1\n  b: 2\n- c", "- a: 1\n b: 2", "- |\n  a\n  b\n- >\n  c\n  d\n",
    "- |-\n  a\n- >+\n  b\n\n- c", "- 'a\n\n  b'", "- a\n...\n", "---\n- a", "--- [a]", "---\n- a\n---\n- b",
    "%YAML 1.1\n---\n- yes\n- 010", "%YAML 1.2\n---\n- yes", "%TAG ! tag:yaml.org,2002:\n---\n- !int '1'",
    "- a\r\n- b\r\n", "- a\r- b", "-\ta", "- a\tb", "- \ta\n-\t- b", "- a:\n- b:", "- ? a\n  : b", "- &x a\n- *x",
    "- ! a\n- !!null ''", '- "a\n- b', "-a\n-b", "- --- a", "--- - a", '- \'x y\'\n- "z"', "- #x\n- a",
    "%YAML 1.3\n---\n- yes", "%YAML 2.0\n---\n- a", "\ufeff- a", "- a\x00b", "- \x7f", "- \ud800",
    "[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]", "[0.0, -0.0, 0e0, 1e400]", "[a,b]", '["a","b"]',
    "[{a: b, c: [d, {e: f}]}]", "[a\\b, C:\\x]", '["a" , \'b\' , c ]', "[::a, a::b, :]", "[a?, ?a, a?b]",
    "[a!, a&b, a*b]", "[a|b, >c]", "[|]", '["a\nb", \'c\n\n\nd\']', "[a, b]: c", "- a\n- [b", "- a\n-b\n- c",
    "[a:, b:]", "[a:]", "[{a:}]", "[a:[b]]", "[a ?b]", "[a? b, ? ]", "[:]", "[ : a]", "[: a]", "[a:\n b]", "[?]",
    "[{? a, ?b: c}]", "- :a", "- ?a", "- : a", "- a: {b:1}", "[2001-12-14t1:02:03, 2001-12-14 01:02:03.9999996]",
    "[2001-12-14t01:02:03+5:30, 2001-12-14t01:02:03+05]", "%YAML 1.1\n---\n[0o10, 1:30, y, 1e3, on, 0b1]",
    "[{a: 1, <<: {b: 1}, <<: {c: 1}}]", "[{a: 1, <<: [b]}]", "[[*a]]", "[#a]",
)
# fmt: on


def recorded(text: str) -> dict[str, str]:
    try:
        return {
            "text": text,
            "items": repr(Configuration.parse_list_value(text)).replace("ordereddict(", "OrderedDict("),
        }
    except Exception as error:
        return {"text": text, "raises": type(error).__name__}


def main() -> None:
    golden = Path(__file__).resolve().with_name("pyflink_list_values.json")
    entries = [recorded(text) for text in TEXTS]
    golden.write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
    print(f"{golden.name}: {len(entries)} texts")


if __name__ == "__main__":
    main()
