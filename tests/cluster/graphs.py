"""Job graphs of small programs, as a submission brings them."""

from __future__ import annotations

from typing import Any

from runtime.common.configuration import Configuration
from runtime.datastream import StreamExecutionEnvironment
from runtime.graph.codec import job_graph_to_json
from runtime.graph.job_graph import JobGraph


def graph(parallelism: int = 2, name: str = "sums", **options: str) -> JobGraph:
    """numbers → keyed sums → print; `options` with _ for . and - as they stand in Flink's keys."""
    configuration = Configuration()
    for key, value in options.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    numbers = env.from_collection(list(range(20)))
    numbers.map(lambda x: (x % 3, x)).key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1])).print()
    return env.create_job_graph(name)


def graph_json(parallelism: int = 2, name: str = "sums", **options: str) -> dict[str, Any]:
    return job_graph_to_json(graph(parallelism, name, **options))


RESTARTING = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "3"}
"""Options of a job that is restarted."""
