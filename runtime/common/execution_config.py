"""ExecutionConfig: the job's own settings as methods; each is an option of the Configuration behind it.

Flink's settings of Java serialization (Kryo, Avro, generic types, closure cleaner) mean nothing here and are refused.
Source: PyFlink, common/execution_config.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from runtime.common import options
from runtime.common.configuration import Configuration
from runtime.common.exclusions import refuse_attribute
from runtime.common.time import Duration

__all__ = ["ExecutionConfig"]


class ExecutionConfig:
    """Settings of one job.

    Args:
        configuration: is read and written; None = a new one.
    """

    PARALLELISM_DEFAULT = -1
    """Stands for: as the environment has it."""
    PARALLELISM_UNKNOWN = -2
    """Stands for: leave as it is."""

    __slots__ = ("_configuration",)

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration() if configuration is None else configuration

    def set_auto_watermark_interval(self, interval: int) -> ExecutionConfig:
        """Set how often periodic watermarks are emitted, ms; 0 = whenever the watermark rises."""
        self._configuration.set(options.AUTO_WATERMARK_INTERVAL, Duration.of_millis(interval))
        return self

    def get_auto_watermark_interval(self) -> int:
        """Return milliseconds."""
        return self._configuration.get(options.AUTO_WATERMARK_INTERVAL).to_millis()

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """Set the parallelism of operators that set none; PARALLELISM_DEFAULT unsets, PARALLELISM_UNKNOWN does
        nothing.
        """
        if parallelism == self.PARALLELISM_DEFAULT:
            self._configuration.remove_config(options.PARALLELISM_DEFAULT.key)
        elif parallelism != self.PARALLELISM_UNKNOWN:
            self._configuration.set(options.PARALLELISM_DEFAULT, parallelism)
        return self

    def get_parallelism(self) -> int:
        """Return the parallelism that was set, else PARALLELISM_DEFAULT."""
        return self._configuration.get(options.PARALLELISM_DEFAULT) or self.PARALLELISM_DEFAULT

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        """Set the number of key groups, 1..32768.

        Raises:
            ConfigurationError: it is outside of that.
        """
        self._configuration.set(options.PIPELINE_MAX_PARALLELISM, max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Return the max parallelism that was set, else -1."""
        return self._configuration.get(options.PIPELINE_MAX_PARALLELISM) or -1

    def set_task_cancellation_timeout(self, timeout: int) -> ExecutionConfig:
        """Set how long tasks may take to leave, ms."""
        self._configuration.set(options.TASK_CANCELLATION_TIMEOUT, Duration.of_millis(timeout))
        return self

    def get_task_cancellation_timeout(self) -> int:
        """Return milliseconds."""
        return self._configuration.get(options.TASK_CANCELLATION_TIMEOUT).to_millis()

    def set_task_cancellation_interval(self, interval: int) -> ExecutionConfig:
        """Set the interval, ms. It is only kept: a slot is asked to stop once, then its process is ended."""
        self._configuration.set(options.TASK_CANCELLATION_INTERVAL, Duration.of_millis(interval))
        return self

    def get_task_cancellation_interval(self) -> int:
        """Return milliseconds."""
        return self._configuration.get(options.TASK_CANCELLATION_INTERVAL).to_millis()

    def set_latency_tracking_interval(self, interval: int) -> ExecutionConfig:
        """Set how often sources emit latency markers, ms; 0 = never."""
        self._configuration.set(options.LATENCY_INTERVAL, Duration.of_millis(interval))
        return self

    def get_latency_tracking_interval(self) -> int:
        """Return milliseconds."""
        return self._configuration.get(options.LATENCY_INTERVAL).to_millis()

    def enable_auto_generated_uids(self) -> None:
        """Let stateful operators go without a uid."""
        self._configuration.set(options.AUTO_GENERATE_UIDS, True)

    def disable_auto_generated_uids(self) -> None:
        """Refuse a program in which a stateful operator has no uid."""
        self._configuration.set(options.AUTO_GENERATE_UIDS, False)

    def has_auto_generated_uids_enabled(self) -> bool:
        return self._configuration.get(options.AUTO_GENERATE_UIDS)

    def is_use_snapshot_compression(self) -> bool:
        return self._configuration.get(options.SNAPSHOT_COMPRESSION)

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> ExecutionConfig:
        """Compress state in snapshots."""
        self._configuration.set(options.SNAPSHOT_COMPRESSION, use_snapshot_compression)
        return self

    def enable_object_reuse(self) -> ExecutionConfig:
        """Hand chained operators the very objects that their predecessors made."""
        self._configuration.set(options.OBJECT_REUSE, True)
        return self

    def disable_object_reuse(self) -> ExecutionConfig:
        """Hand chained operators copies."""
        self._configuration.set(options.OBJECT_REUSE, False)
        return self

    def is_object_reuse_enabled(self) -> bool:
        return self._configuration.get(options.OBJECT_REUSE)

    def get_global_job_parameters(self) -> dict[str, str]:
        """Return the parameters that functions read with `RuntimeContext.get_job_parameter`."""
        parameters = self._configuration.get(options.GLOBAL_JOB_PARAMETERS)
        return dict(parameters)

    def set_global_job_parameters(self, global_job_parameters: Mapping[str, object]) -> ExecutionConfig:
        """Set names and values that functions can read."""
        texts = {str(key): str(value) for key, value in global_job_parameters.items()}
        self._configuration.set(options.GLOBAL_JOB_PARAMETERS, texts)
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionConfig) and other._configuration == self._configuration

    def __hash__(self) -> int:
        return hash(self._configuration)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            refuse_attribute(self, name)
