"""Options of jobs that leave as much behind as a job can: what they store must not have a secret in it."""

from __future__ import annotations

from pathlib import Path

from runtime.common.options import EXECUTION_TARGET


def storing_and_restarting(directory: Path) -> dict[str, str]:
    """Return options of a job in this process that keeps its checkpoints, in a directory, and restarts once."""
    return {
        EXECUTION_TARGET.key: "mini-cluster",
        "parallelism.default": "1",
        "execution.checkpointing.interval": "10 ms",
        "execution.checkpointing.dir": (directory / "checkpoints").as_uri(),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1",
        "restart-strategy.fixed-delay.delay": "0 s",
    }
