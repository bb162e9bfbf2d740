"""Metrics: a counter, a gauge and a distribution of the user's own, read back from the job that kept them.

They appear beside Flink's under the operator's name, on the dashboard and in `JobClient.get_status`, as
`<operator>.<name>`.
"""

from __future__ import annotations

from runtime.common import Types
from runtime.datastream import MapFunction, RuntimeContext, StreamExecutionEnvironment

LEVELS = (310, 702, 281, 655, 290)


class Watched(MapFunction):
    """Passes levels on and keeps count of them."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.latest = 0
        group = runtime_context.get_metrics_group().add_group("tide")
        self.alarms = group.counter("alarms")
        self.levels = group.distribution("levels")
        group.gauge("latest", lambda: self.latest)

    def map(self, value: int) -> int:
        self.latest = value
        self.levels.update(value)
        if value > 600:
            self.alarms.inc()
        return value


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.from_collection(LEVELS, Types.LONG()).map(Watched(), Types.LONG()).name("watched").print()
    client = env.execute_async("metrics")
    client.get_job_execution_result().result()
    for task in client.get_status().tasks:
        for name, value in sorted(task.metrics.items()):
            if ".tide." in name:
                print(f"{name} = {value}")


if __name__ == "__main__":
    main()
