"""Descriptors refuse what they cannot describe, and travel."""

from __future__ import annotations

from typing import Any

import cloudpickle
import pytest

from runtime.common.typeinfo import Types
from runtime.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from tests.state.backends import AverageFunction


def test_names_and_types_are_pyflinks() -> None:
    assert ValueStateDescriptor("v", Types.LONG()).get_name() == "v"
    assert ListStateDescriptor("l", Types.LONG()).type_info == Types.LIST(Types.LONG())
    assert MapStateDescriptor("m", Types.STRING(), Types.LONG()).type_info == Types.MAP(Types.STRING(), Types.LONG())
    assert MapStateDescriptor("m", Types.STRING()).type_info is None
    assert "'v'" in repr(ValueStateDescriptor("v"))


def test_functions_are_checked() -> None:
    class Sum:
        def reduce(self, a: int, b: int) -> int:
            return a + b

    assert ReducingStateDescriptor("r", Sum()).get_reduce_function().reduce(1, 2) == 3
    assert ReducingStateDescriptor("r", max).get_reduce_function().reduce(1, 2) == 2
    function = AverageFunction()
    assert AggregatingStateDescriptor("a", function).get_agg_function() is function
    with pytest.raises(TypeError, match="ReduceFunction"):
        ReducingStateDescriptor("r", 5)
    with pytest.raises(TypeError, match="create_accumulator"):
        AggregatingStateDescriptor("a", max)


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_state_needs_a_name(name: Any) -> None:
    with pytest.raises(TypeError, match="name"):
        ValueStateDescriptor(name)


def test_descriptors_travel() -> None:
    descriptor = ReducingStateDescriptor("r", lambda a, b: a + b, Types.LONG())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(5).build())
    copy = cloudpickle.loads(cloudpickle.dumps(descriptor))
    assert copy.get_reduce_function().reduce(1, 2) == 3
    assert copy.ttl_config.get_update_type() is StateTtlConfig.UpdateType.OnCreateAndWrite
