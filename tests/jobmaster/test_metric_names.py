"""Metrics of operators: kept apart by id, shown by name."""

from __future__ import annotations

from runtime.common import Types
from runtime.datastream import MapFunction, RuntimeContext
from runtime.jobmaster.metric_names import by_name, distinct_names
from tests.datastream.running import environment
from tests.job_runs import record_run


class Twice(MapFunction):
    """Counts what it maps, as a metric and as an accumulator."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_metrics_group().counter("seen")
        self.records = runtime_context.get_int_counter("records")

    def map(self, value: int) -> int:
        self.seen.inc()
        self.records.add(1)
        return 2 * value


def test_the_second_of_a_name_has_a_number_that_no_other_operator_has() -> None:
    assert distinct_names(["map", "map", "map_2", "sink", "map"]) == ["map", "map_3", "map_2", "sink", "map_4"]
    assert distinct_names([]) == []


def test_metrics_of_the_task_have_no_operator() -> None:
    metrics = {"numRecordsIn": 1, "id1.numRecordsIn": 2, "id10.numRecordsIn": 3, "Shuffle.Netty.x": 4}
    assert by_name(metrics, {"id1": "map.v2", "id10": "map"}) == {
        "numRecordsIn": 1,
        "map.v2.numRecordsIn": 2,
        "map.numRecordsIn": 3,
        "Shuffle.Netty.x": 4,
    }


def test_operators_of_one_name_in_a_chain_count_for_themselves() -> None:
    env = environment()
    numbers = env.from_collection(range(16), Types.LONG())
    kept = numbers.map(Twice(), Types.LONG()).name("step").filter(lambda n: n < 8).name("step")
    kept.map(Twice(), Types.LONG()).name("step").print().name("shown")
    client = env.execute_async()
    result = client.get_job_execution_result().result(30)
    record_run("mini-cluster")
    [task] = client.get_status().tasks
    assert "-> step -> step -> step -> Sink: shown" in task.name
    assert [task.metrics[f"{name}.numRecordsOut"] for name in ("step", "step_2", "step_3")] == [16, 4, 4]
    assert [task.metrics[f"{name}.numRecordsIn"] for name in ("step", "step_2", "step_3")] == [16, 16, 4]
    assert [task.metrics[f"{name}.seen"] for name in ("step", "step_3")] == [16, 4]
    # what has left the task, and not twice as much
    assert task.metrics["numRecordsOut"] == 4
    assert result.get_accumulator_result("records") == 20


def test_two_branches_of_one_name_do_not_share_what_leaves_the_task() -> None:
    env = environment()
    numbers = env.from_collection(range(10), Types.LONG())
    for half in (lambda n: n % 2 == 0, lambda n: n % 2 == 1):
        numbers.filter(half).name("half").rebalance().print().name("shown")
    client = env.execute_async()
    client.get_job_execution_result().result(30)
    record_run("mini-cluster")
    [source] = [task for task in client.get_status().tasks if "half" in task.name]
    assert source.metrics["numRecordsOut"] == 10
