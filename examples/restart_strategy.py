"""Restart strategy: a function fails in its first two attempts, and the job is started again each time.

Without checkpoints a restarted job begins from the start; what failed is kept in the job's history.
"""

from __future__ import annotations

from runtime.common import Configuration, RestartStrategies, Types
from runtime.datastream import MapFunction, RuntimeContext, StreamExecutionEnvironment


class Flaky(MapFunction):
    """Fails at its first record until the third attempt."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.attempt = runtime_context.get_attempt_number()

    def map(self, value: int) -> int:
        if self.attempt < 2:
            raise RuntimeError(f"attempt {self.attempt} fails")
        return value * 10


def main() -> None:
    strategy = RestartStrategies.fixed_delay_restart(restart_attempts=3, delay_between_attempts=10)
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(strategy.to_options()))
    env.set_parallelism(1)
    env.from_collection([1, 2, 3], Types.LONG()).map(Flaky(), Types.LONG()).name("flaky").print()
    client = env.execute_async("restart strategy")
    client.get_job_execution_result().result()
    status = client.get_status()
    print(f"{status.state.name} after {status.restarts} restarts")


if __name__ == "__main__":
    main()
