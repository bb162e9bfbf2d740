"""Failures of user functions name the operator, the record and the user's own line, on one line."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from runtime.operators.errors import UserFunctionError
from runtime.operators.functions import KeyedProcessFunction, MapFunction, RuntimeContext
from runtime.operators.map_operators import FlatMapOperatorFactory, MapOperatorFactory
from runtime.operators.process_operators import KeyedProcessOperatorFactory
from runtime.operators.reduce import ReduceOperatorFactory
from runtime.testing.harness import OneInputHarness

HERE = Path(__file__).name


def parse(text: str) -> Any:
    return json.loads(text)["dep"]


def failure(harness: OneInputHarness, values: list[Any]) -> UserFunctionError:
    with harness, pytest.raises(UserFunctionError) as caught:
        harness.process(values)
    assert "\n" not in str(caught.value)
    return caught.value


def test_the_message_has_operator_record_and_the_users_line() -> None:
    error = failure(OneInputHarness(MapOperatorFactory(parse), parallelism=4, subtask=1), ['{"dep": 1}', "{}"])
    assert error.operator_name == "Map"
    assert error.record == "'{}'"
    assert HERE in error.location
    assert error.source_line == 'return json.loads(text)["dep"]'
    assert str(error).startswith("operator 'Map' (subtask 2/4) failed on record '{}': KeyError: 'dep' at ")
    assert isinstance(error.__cause__, KeyError)


def test_the_users_line_is_preferred_to_a_line_of_the_standard_library() -> None:
    error = failure(OneInputHarness(MapOperatorFactory(parse)), ["not json"])
    assert HERE in error.location
    assert error.error.startswith("json.decoder.JSONDecodeError")


def test_a_builtin_has_no_line_and_the_message_still_names_the_record() -> None:
    error = failure(OneInputHarness(MapOperatorFactory(int)), ["1", "x"])
    assert (error.record, error.location) == ("'x'", "")


def test_a_result_that_is_no_iterable_names_the_function() -> None:
    error = failure(OneInputHarness(FlatMapOperatorFactory(lambda v: v)), [7])
    assert HERE in error.location
    assert error.record == "7"


def test_long_and_broken_records_are_described() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise ValueError("no")

    def fails(value: Any) -> Any:
        raise RuntimeError("two\nlines")

    assert len(failure(OneInputHarness(MapOperatorFactory(fails)), ["x" * 500]).record or "") == 201
    assert "Broken" in (failure(OneInputHarness(MapOperatorFactory(fails)), [Broken()]).record or "")


def test_the_error_survives_pickling() -> None:
    error = failure(OneInputHarness(MapOperatorFactory(parse)), ["{}"])
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)
    assert (copy.record, copy.location, copy.details) == (error.record, error.location, error.details)


def test_a_failing_key_selector_is_named() -> None:
    error = failure(OneInputHarness(ReduceOperatorFactory(max, lambda v: v["k"])), [{"k": 1}, {"j": 2}])
    assert "the key selector" in str(error)
    assert error.record == "{'j': 2}"


def test_a_key_without_encoding_is_named() -> None:
    error = failure(OneInputHarness(ReduceOperatorFactory(max, lambda v: v)), [1, {"a": 1}])
    assert error.record == "{'a': 1}"


def test_a_failing_timer_names_its_key_and_time() -> None:
    class Failing(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
            ctx.timer_service().register_event_time_timer(5)

        def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> None:
            raise RuntimeError("late")

    with OneInputHarness(KeyedProcessOperatorFactory(Failing(), lambda v: v)) as harness:
        harness.process(["a"], [1])
        with pytest.raises(UserFunctionError, match="on_timer at 5 for key 'a': RuntimeError: late"):
            harness.process_watermark(5)


def test_every_function_is_closed_even_if_open_failed(tmp_path: Path) -> None:
    class Leaky(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            raise OSError("no such host")

        def close(self) -> None:
            (tmp_path / "closed").touch()

        def map(self, value: Any) -> Any:
            return value

    factory = MapOperatorFactory(Leaky())
    with pytest.raises(UserFunctionError, match=r"open\(\): OSError: no such host"):
        OneInputHarness(factory)
    assert (tmp_path / "closed").exists()
