"""harness_of: a harness for one step of a program, written as in the program.

    with harness_of(lambda events: events.key_by(user_of).process(CountPerUser())) as harness:
        harness.process([("ann", 1)], timestamps=[5])
        harness.process_watermark(10)
        assert harness.values == [("ann", 1)]

The step is one operator: a function, a window, an asynchronous call. What is made of several (a window join, for
example) is for `run_job`. Source: Flink, ProcessFunctionTestHarnesses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.common.configuration import Configuration
from runtime.common.typeinfo import TypeInformation
from runtime.datastream.data_stream import DataStream
from runtime.datastream.stream_execution_environment import StreamExecutionEnvironment
from runtime.graph.partitioning import Partitioning
from runtime.operators.operator import OperatorFactory
from runtime.state.snapshot import OperatorSnapshot
from runtime.testing.clock import ManualClock
from runtime.testing.harness import (
    OneInputHarness,
    Stage,
    assert_survives_rescaling,
)
from runtime.testing.two_input_harness import (
    InputTypes,
    TwoInputHarness,
    TwoInputStage,
    assert_two_inputs_survive_rescaling,
)

__all__ = [
    "BuildStep",
    "BuildTwoInputStep",
    "assert_program_survives_rescaling",
    "assert_two_input_program_survives_rescaling",
    "harness_of",
    "two_input_harness_of",
]

BuildStep = Callable[[DataStream], Any]
"""Adds one operator to a stream and returns the resulting stream."""
BuildTwoInputStep = Callable[[DataStream, DataStream], Any]
"""Adds one operator to two streams and returns the resulting stream."""


@dataclass(frozen=True, slots=True)
class _Step:
    """An operator of a program, and the partitioning of its inputs."""

    factory: OperatorFactory
    key_selectors: Sequence[Any]
    """One for each input; None = that input is not keyed."""
    broadcasts_second: bool


def harness_of(
    build: BuildStep,
    *,
    input_type: TypeInformation | None = None,
    parallelism: int = 1,
    subtask: int = 0,
    max_parallelism: int = 128,
    configuration: Mapping[str, str] | None = None,
    clock: ManualClock | None = None,
    snapshot: OperatorSnapshot | None = None,
    job_parameters: Mapping[str, str] | None = None,
    timers_per_slice: int | None = None,
) -> OneInputHarness:
    """Run one subtask of a step with one input; arguments beside the first two as for OperatorHarness.

    Args:
        build: adds the step to the stream that it is given.
        input_type: type of the records; None = Python objects.

    Raises:
        ValueError: `build` adds none or several operators, or one with two inputs.
    """
    step = _step(build, [input_type], configuration)
    [selector] = step.key_selectors
    return OneInputHarness(
        step.factory,
        selector,
        parallelism,
        subtask,
        max_parallelism,
        configuration,
        clock,
        snapshot,
        input_type,
        job_parameters,
        timers_per_slice,
    )


def two_input_harness_of(
    build: BuildTwoInputStep,
    *,
    input_types: InputTypes = (None, None),
    parallelism: int = 1,
    subtask: int = 0,
    max_parallelism: int = 128,
    configuration: Mapping[str, str] | None = None,
    clock: ManualClock | None = None,
    snapshot: OperatorSnapshot | None = None,
    job_parameters: Mapping[str, str] | None = None,
    timers_per_slice: int | None = None,
) -> TwoInputHarness:
    """Run one subtask of a step with two inputs, like `harness_of`, with a type for each input.

    Rules that are broadcast are records of the second input.
    """
    step = _step(build, input_types, configuration)
    first, second = step.key_selectors
    return TwoInputHarness(
        step.factory,
        (first, second),
        parallelism,
        subtask,
        max_parallelism,
        configuration,
        clock,
        snapshot,
        job_parameters,
        input_types,
        timers_per_slice,
    )


def assert_program_survives_rescaling(
    build: BuildStep,
    stages: Sequence[Stage],
    *,
    input_type: TypeInformation | None = None,
    max_parallelism: int = 128,
    configuration: Mapping[str, str] | None = None,
) -> None:
    """Check that a step does the same if it is stopped and restored at parallelism 2, then 1, between stages.

    Args:
        build: adds the step to the stream that it is given.
        stages: at least 3; later ones continue at parallelism 1. Keyed records go to the subtask of their key, others
            to the subtasks in turn.
        input_type: type of the records; None = Python objects.
        max_parallelism: number of key groups.
        configuration: options of the job.

    Raises:
        AssertionError: a stage's output is not that of an uninterrupted run.
        ValueError: as `harness_of`.
    """
    step = _step(build, [input_type], configuration)
    [selector] = step.key_selectors
    assert_survives_rescaling(step.factory, stages, selector, max_parallelism, configuration, input_type)


def assert_two_input_program_survives_rescaling(
    build: BuildTwoInputStep,
    stages: Sequence[TwoInputStage],
    *,
    input_types: InputTypes = (None, None),
    max_parallelism: int = 128,
    configuration: Mapping[str, str] | None = None,
) -> None:
    """Check a step with two inputs like `assert_program_survives_rescaling`; what is broadcast goes to all subtasks."""
    step = _step(build, input_types, configuration)
    first, second = step.key_selectors
    assert_two_inputs_survive_rescaling(
        step.factory, stages, (first, second), max_parallelism, configuration, step.broadcasts_second, input_types
    )


def _step(
    build: Callable[..., Any],
    input_types: Sequence[TypeInformation | None],
    configuration: Mapping[str, str] | None,
) -> _Step:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(dict(configuration or {})))
    streams = [env.from_collection([], input_type) for input_type in input_types]
    sources = set(env.program.nodes)
    build(*streams)
    added = [node for node_id, node in env.program.nodes.items() if node_id not in sources]
    if len(added) != 1:
        names = ", ".join(node.display_name for node in added) or "none"
        raise ValueError(f"a harness runs one operator, and the program has {len(added)}: {names}; use run_job()")
    [node] = added
    edges = sorted((edge for edge in env.program.edges if edge.target == node.node_id), key=lambda e: e.input_index)
    if [edge.input_index for edge in edges] != list(range(len(streams))):
        raise ValueError(f"{node.display_name} does not have {len(streams)} inputs, each of one stream")
    return _Step(
        node.factory,
        [edge.partitioner if edge.partitioning is Partitioning.KEY_GROUP else None for edge in edges],
        edges[-1].partitioning is Partitioning.BROADCAST,
    )
