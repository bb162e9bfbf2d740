"""`Configuration.parse_list_value` against what PyFlink 2.3.0 made of the same texts.

pyflink_list_values.json was made by record_list_values.py.
"""

from __future__ import annotations

import datetime
import json
from collections import OrderedDict
from pathlib import Path

import pytest

from runtime.common import Configuration

RECORDED = json.loads(Path(__file__).with_name("pyflink_list_values.json").read_text(encoding="utf-8"))
NAMES = {"datetime": datetime, "OrderedDict": OrderedDict, "nan": float("nan"), "inf": float("inf")}


def test_many_texts_were_recorded() -> None:
    assert len(RECORDED) > 250
    assert sum("raises" in entry for entry in RECORDED) > 60


@pytest.mark.parametrize("entry", RECORDED, ids=lambda entry: ascii(entry["text"]))
def test_a_list_value_is_what_pyflink_makes_of_it(entry: dict[str, str]) -> None:
    if "raises" in entry:
        with pytest.raises(ValueError, match=r"\w"):
            Configuration.parse_list_value(entry["text"])
    else:
        # by their text: NaN, -0.0, 1.0 and True count
        expected = repr(eval(entry["items"], dict(NAMES)))
        assert repr(Configuration.parse_list_value(entry["text"])) == expected


def test_nothing_has_no_items() -> None:
    assert Configuration.parse_list_value(None) == Configuration.parse_list_value("") == []


def test_the_error_says_where_the_text_is_wrong() -> None:
    with pytest.raises(ValueError, match=r"expected ',' or '\]'.* line 1, column 3"):
        Configuration.parse_list_value("[a")
    with pytest.raises(ValueError, match=r"the key 'a' is there twice.* line 1, column 9"):
        Configuration.parse_list_value("[{a: 1, a: 2}]")
    with pytest.raises(ValueError, match="too deeply"):
        Configuration.parse_list_value("[" * 500)


def test_a_list_may_hold_itself_and_an_anchor_its_list() -> None:
    (inner,) = Configuration.parse_list_value("&x [*x]")
    assert inner[0] is inner


def test_a_tag_calls_nothing() -> None:
    with pytest.raises(ValueError, match="python/object"):
        Configuration.parse_list_value("[!!python/object/apply:os.getpid []]")
