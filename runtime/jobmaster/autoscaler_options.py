"""Options of the autoscaler, by the keys of Flink's Kubernetes operator, and their values as plain numbers.

Descriptions state different defaults: a rescaling takes seconds here, not minutes, so that a short window is worth it.
Source: Flink Kubernetes Operator 1.11, AutoScalerOptions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from runtime.common import options
from runtime.common.config_options import ConfigOption, ConfigOptions, ConfigurationError
from runtime.common.configuration import Configuration
from runtime.common.time import Duration

AUTOSCALER_ENABLED: ConfigOption[bool] = ConfigOptions.key("job.autoscaler.enabled").boolean_type().default_value(False)
"""Whether the autoscaler watches a job and changes its parallelisms, until a user switches it on or off."""

SCALING_ENABLED: ConfigOption[bool] = (
    ConfigOptions.key("job.autoscaler.scaling.enabled").boolean_type().default_value(True)
)
"""Whether it acts on its decisions; otherwise it only shows them."""

METRICS_WINDOW: ConfigOption[Duration] = (
    ConfigOptions.key("job.autoscaler.metrics.window")
    .duration_type()
    .at_least(Duration.of_seconds(1))
    .default_value(Duration.of_minutes(1))
)
"""Time over which rates are averaged; nothing is decided before as much time has been observed. Flink: 15 min."""

STABILIZATION_INTERVAL: ConfigOption[Duration] = (
    ConfigOptions.key("job.autoscaler.stabilization.interval")
    .duration_type()
    .at_least(Duration(0))
    .default_value(Duration.of_seconds(30))
)
"""Time after the start of the tasks that is not observed. Flink: 5 min."""

TARGET_UTILIZATION: ConfigOption[float] = (
    ConfigOptions.key("job.autoscaler.target.utilization").double_type().at_least(0.01).at_most(1.0).default_value(0.7)
)
"""Share of its time for which a subtask should be busy."""

UTILIZATION_BOUNDARY: ConfigOption[float] = (
    ConfigOptions.key("job.autoscaler.target.utilization.boundary")
    .double_type()
    .at_least(0.0)
    .at_most(1.0)
    .default_value(0.2)
)
"""Deviation from the target that is left alone. Flink: 0.3, so that only what cannot keep up gets more."""

CATCH_UP_DURATION: ConfigOption[Duration] = (
    ConfigOptions.key("job.autoscaler.catch-up.duration")
    .duration_type()
    .at_least(Duration(0))
    .default_value(Duration.of_minutes(30))
)
"""Time in which a backlog, and what arrives during a rescaling, is to be processed; a rescaling must gain more than it
costs within it. 0: backlogs and costs are ignored."""

RESTART_TIME: ConfigOption[Duration] = (
    ConfigOptions.key("job.autoscaler.restart.time")
    .duration_type()
    .at_least(Duration(0))
    .default_value(Duration.of_seconds(10))
)
"""Cost of a rescaling until one has been measured. Flink: 5 min."""

SCALE_UP_GRACE_PERIOD: ConfigOption[Duration] = (
    ConfigOptions.key("job.autoscaler.scale-up.grace-period")
    .duration_type()
    .at_least(Duration(0))
    .default_value(Duration.of_minutes(5))
)
"""Time after a vertex got more subtasks in which none are taken from it. Flink: 1 h."""

SCALE_UP_MAX_FACTOR: ConfigOption[float] = (
    ConfigOptions.key("job.autoscaler.scale-up.max-factor").double_type().at_least(0.0).default_value(100_000.0)
)
"""Largest increase at a time; 2.0: by 200 % of the parallelism."""

SCALE_DOWN_MAX_FACTOR: ConfigOption[float] = (
    ConfigOptions.key("job.autoscaler.scale-down.max-factor")
    .double_type()
    .at_least(0.0)
    .at_most(1.0)
    .default_value(0.6)
)
"""Largest decrease at a time; 0.6: by 60 % of the parallelism."""

MIN_PARALLELISM: ConfigOption[int] = (
    ConfigOptions.key("job.autoscaler.vertex.min-parallelism").int_type().at_least(1).default_value(1)
)
"""Smallest parallelism that it gives a vertex."""

MAX_PARALLELISM: ConfigOption[int] = (
    ConfigOptions.key("job.autoscaler.vertex.max-parallelism").int_type().at_least(1).default_value(200)
)
"""Largest parallelism that it gives a vertex, if its max parallelism is not smaller."""

EXCLUDED_VERTICES: ConfigOption[str] = (
    ConfigOptions.key("job.autoscaler.vertex.exclude.ids").string_type().default_value("")
)
"""Ids of vertices that keep their parallelism, separated by semicolons."""

DETECTS_INEFFECTIVE: ConfigOption[bool] = (
    ConfigOptions.key("job.autoscaler.scaling.effectiveness.detection.enabled").boolean_type().default_value(True)
)
"""Whether a vertex gets no further subtasks if the last ones have not made it faster. Flink: false."""

EFFECTIVENESS_THRESHOLD: ConfigOption[float] = (
    ConfigOptions.key("job.autoscaler.scaling.effectiveness.threshold")
    .double_type()
    .at_least(0.0)
    .at_most(1.0)
    .default_value(0.1)
)
"""Share of the expected gain below which it has not."""


@dataclass(frozen=True, slots=True)
class AutoscalerSettings:
    """All times in milliseconds."""

    is_enabled: bool = False
    acts: bool = True
    window_ms: int = 60_000
    stabilization_ms: int = 30_000
    target: float = 0.7
    boundary: float = 0.2
    catch_up_ms: int = 1_800_000
    restart_ms: int = 10_000
    grace_ms: int = 300_000
    cooldown_ms: int = 30_000
    """Between two rescalings, whoever asked for them."""
    max_increase: float = 100_000.0
    max_decrease: float = 0.6
    min_parallelism: int = 1
    max_parallelism: int = 200
    excluded: frozenset[str] = frozenset()
    effectiveness: float | None = 0.1
    """None: ineffective scaling is not detected."""

    @property
    def lower(self) -> float:
        """Utilization below which subtasks are taken away."""
        return max(0.0, self.target - self.boundary)

    @property
    def upper(self) -> float:
        """Utilization above which subtasks are added."""
        return min(1.0, self.target + self.boundary)

    @classmethod
    def of(cls, configuration: Configuration) -> AutoscalerSettings:
        """Read the options above, and the cooldown after a rescaling.

        Raises:
            ConfigurationError: a value cannot be used, or the smallest parallelism is above the largest.
        """
        read = configuration.get
        lowest, highest = read(MIN_PARALLELISM), read(MAX_PARALLELISM)
        if lowest > highest:
            raise ConfigurationError(
                MIN_PARALLELISM.key, str(lowest), f"at most {MAX_PARALLELISM.key}, which is {highest}"
            )
        for option in (TARGET_UTILIZATION, UTILIZATION_BOUNDARY, SCALE_UP_MAX_FACTOR, SCALE_DOWN_MAX_FACTOR):
            if not math.isfinite(read(option)):
                raise ConfigurationError(option.key, str(read(option)), "a finite number")
        excluded = read(EXCLUDED_VERTICES).replace(",", ";").split(";")
        return cls(
            is_enabled=read(AUTOSCALER_ENABLED),
            acts=read(SCALING_ENABLED),
            window_ms=read(METRICS_WINDOW).to_millis(),
            stabilization_ms=read(STABILIZATION_INTERVAL).to_millis(),
            target=read(TARGET_UTILIZATION),
            boundary=read(UTILIZATION_BOUNDARY),
            catch_up_ms=read(CATCH_UP_DURATION).to_millis(),
            restart_ms=read(RESTART_TIME).to_millis(),
            grace_ms=read(SCALE_UP_GRACE_PERIOD).to_millis(),
            cooldown_ms=read(options.RESCALE_COOLDOWN).to_millis(),
            max_increase=read(SCALE_UP_MAX_FACTOR),
            max_decrease=read(SCALE_DOWN_MAX_FACTOR),
            min_parallelism=lowest,
            max_parallelism=highest,
            excluded=frozenset(name.strip() for name in excluded if name.strip()),
            effectiveness=read(EFFECTIVENESS_THRESHOLD) if read(DETECTS_INEFFECTIVE) else None,
        )
