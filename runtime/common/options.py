"""The options that the engine reads, with Flink's keys and defaults; each is a `ConfigOption`.

`configuration.get(options.HEARTBEAT_TIMEOUT)` gives a Duration, memory sizes are ints in bytes. An option that is not
here is carried along unread. Source: Flink 2.3, configuration reference; where a default differs, the text says so.
"""

from __future__ import annotations

from collections.abc import Mapping

from runtime.common.config_options import ConfigOption, ConfigOptions
from runtime.common.time import Duration

PARALLELISM_DEFAULT: ConfigOption[int | None] = (
    ConfigOptions.key("parallelism.default").int_type().at_least(1).no_default_value()
)
"""Parallelism of operators that set none. Not set: the environment decides; it takes the number of CPUs."""

PIPELINE_NAME: ConfigOption[str | None] = ConfigOptions.key("pipeline.name").string_type().no_default_value()
"""The job's name; `execute(name)` goes first."""

PIPELINE_MAX_PARALLELISM: ConfigOption[int | None] = (
    ConfigOptions.key("pipeline.max-parallelism").int_type().at_least(1).at_most(32_768).no_default_value()
)
"""Number of key groups, 1..32768. Not set: computed from the parallelism by Flink's formula."""

OBJECT_REUSE: ConfigOption[bool] = ConfigOptions.key("pipeline.object-reuse").boolean_type().default_value(False)
"""Whether chained operators are handed the very objects that their predecessor made, instead of copies."""

GLOBAL_JOB_PARAMETERS: ConfigOption[Mapping[str, str]] = (
    ConfigOptions.key("pipeline.global-job-parameters").map_type().default_value({})
)
"""What `RuntimeContext.get_job_parameter` gives to functions."""

PYTHON_FILES: ConfigOption[str | None] = ConfigOptions.key("python.files").string_type().no_default_value()
"""Python files, packages and archives that the slots import from; paths joined by commas."""

BUNDLE_SIZE: ConfigOption[int] = ConfigOptions.key("python.fn-execution.bundle.size").int_type().default_value(100_000)
"""How many records functions may be given before timers, watermarks and the next function have their turn. Tasks take
fewer by themselves, about 20 ms of work; a smaller number makes results leave sooner."""

BUNDLE_TIME_MS: ConfigOption[int] = ConfigOptions.key("python.fn-execution.bundle.time").long_type().default_value(1000)
"""For how long they may be, in ms; tasks look up after about 20 ms by themselves."""

AUTO_WATERMARK_INTERVAL: ConfigOption[Duration] = (
    ConfigOptions.key("pipeline.auto-watermark-interval")
    .duration_type()
    .at_least(Duration(0))
    .default_value(Duration.of_millis(200))
)
"""How often periodic watermarks are emitted; 0 = whenever the watermark rises."""

OPERATOR_CHAINING: ConfigOption[bool] = (
    ConfigOptions.key("pipeline.operator-chaining.enabled")
    .boolean_type()
    .with_deprecated_keys("pipeline.operator-chaining")
    .default_value(True)
)
"""Whether operators may share a task."""

BUFFER_TIMEOUT_ENABLED: ConfigOption[bool] = (
    ConfigOptions.key("execution.buffer-timeout.enabled").boolean_type().default_value(True)
)
"""Whether records leave before a batch is full; false is the same as an interval of -1."""

BUFFER_TIMEOUT: ConfigOption[Duration] = (
    ConfigOptions.key("execution.buffer-timeout.interval")
    .duration_type()
    .at_least(Duration.of_millis(-1))
    .with_deprecated_keys("execution.buffer-timeout")
    .default_value(Duration.of_millis(100))
)
"""How long records may wait for a batch to fill; 0 = not at all, -1 = until it is full."""

EXECUTION_TARGET: ConfigOption[str] = (
    ConfigOptions.key("execution.target").choice_type("spark", "mini-cluster").default_value("spark")
)
"""Where the job's slots live: Spark tasks, or this process. Tidemark's own values."""

RESTART_STRATEGY: ConfigOption[str | None] = (
    ConfigOptions.key("restart-strategy.type")
    .choice_type(
        "none",
        "off",
        "disable",
        "fixed-delay",
        "fixeddelay",
        "exponential-delay",
        "exponentialdelay",
        "failure-rate",
        "failurerate",
    )
    .with_deprecated_keys("restart-strategy")
    .no_default_value()
)
"""What follows a failure. none, off and disable are the same, and so are the spellings of the others. Not set:
exponential-delay for a job that takes checkpoints, none for one that does not."""

RESTART_FIXED_DELAY_ATTEMPTS: ConfigOption[int] = (
    ConfigOptions.key("restart-strategy.fixed-delay.attempts").int_type().at_least(0).default_value(1)
)
"""How often a job is restarted before it fails."""

RESTART_FIXED_DELAY: ConfigOption[Duration] = (
    ConfigOptions.key("restart-strategy.fixed-delay.delay")
    .duration_type()
    .at_least(Duration(0))
    .default_value(Duration.of_seconds(1))
)
"""Wait before a restart."""

RESTART_EXPONENTIAL_INITIAL_BACKOFF: ConfigOption[Duration] = (
    ConfigOptions.key("restart-strategy.exponential-delay.initial-backoff")
    .duration_type()
    .default_value(Duration.of_seconds(1))
)
"""First wait."""

RESTART_EXPONENTIAL_MAX_BACKOFF: ConfigOption[Duration] = (
    ConfigOptions.key("restart-strategy.exponential-delay.max-backoff")
    .duration_type()
    .default_value(Duration.of_minutes(1))
)
"""Longest wait."""

RESTART_EXPONENTIAL_MULTIPLIER: ConfigOption[float] = (
    ConfigOptions.key("restart-strategy.exponential-delay.backoff-multiplier")
    .double_type()
    .at_least(1.0)
    .default_value(1.5)
)
"""Each wait is that many times the one before."""

RESTART_EXPONENTIAL_RESET_THRESHOLD: ConfigOption[Duration] = (
    ConfigOptions.key("restart-strategy.exponential-delay.reset-backoff-threshold")
    .duration_type()
    .default_value(Duration.of_hours(1))
)
"""After so long without a failure the first wait holds again."""

RESTART_EXPONENTIAL_JITTER: ConfigOption[float] = (
    ConfigOptions.key("restart-strategy.exponential-delay.jitter-factor").double_type().at_least(0.0).default_value(0.1)
)
"""Part of the wait by which it is randomly longer or shorter."""

RESTART_EXPONENTIAL_ATTEMPTS: ConfigOption[int] = (
    ConfigOptions.key("restart-strategy.exponential-delay.attempts-before-reset-backoff")
    .int_type()
    .at_least(0)
    .default_value(2**31 - 1)
)
"""How often a job is restarted, without a reset in between, before it fails."""

RESTART_FAILURE_RATE_MAX: ConfigOption[int] = (
    ConfigOptions.key("restart-strategy.failure-rate.max-failures-per-interval").int_type().at_least(1).default_value(1)
)
"""Failures within one interval that are still restarted."""

RESTART_FAILURE_RATE_INTERVAL: ConfigOption[Duration] = (
    ConfigOptions.key("restart-strategy.failure-rate.failure-rate-interval")
    .duration_type()
    .default_value(Duration.of_minutes(1))
)
"""The interval."""

RESTART_FAILURE_RATE_DELAY: ConfigOption[Duration] = (
    ConfigOptions.key("restart-strategy.failure-rate.delay").duration_type().default_value(Duration.of_seconds(1))
)
"""Wait before a restart."""

HEARTBEAT_INTERVAL: ConfigOption[Duration] = (
    ConfigOptions.key("heartbeat.interval")
    .duration_type()
    .at_least(Duration.of_millis(1))
    .default_value(Duration.of_seconds(1))
)
"""How often the JobMaster asks each slot for a sign of life. Flink: 10 s; a slot is one process here, not a JVM full
of them, and is missed sooner."""

HEARTBEAT_TIMEOUT: ConfigOption[Duration] = (
    ConfigOptions.key("heartbeat.timeout")
    .duration_type()
    .at_least(Duration.of_millis(1))
    .default_value(Duration.of_seconds(5))
)
"""After so long without one, a slot is lost. Flink: 50 s."""

CHANNEL_WINDOW_BYTES: ConfigOption[int] = (
    ConfigOptions.key("taskmanager.network.memory.channel-window").memory_type().at_least(1).default_value(1 << 20)
)
"""Bytes that may be under way on one channel without having been read. Tidemark's own."""

FLOATING_BYTES_PER_GATE: ConfigOption[int] = (
    ConfigOptions.key("taskmanager.network.memory.floating-bytes-per-gate")
    .memory_type()
    .at_least(0)
    .default_value(4 << 20)
)
"""Bytes that the channels of one gate share beyond their windows; lent to those whose producers have a backlog. Flink:
8 buffers of 32 KB."""

MAX_RECORD_BYTES: ConfigOption[int] = (
    ConfigOptions.key("taskmanager.network.max-record-size").memory_type().at_least(1).default_value(512 << 20)
)
"""Bytes that one record may take between processes, or one line in a file that is read; a larger one fails the job.
Tidemark's own. A slot needs some three times a record's size for one that it passes on (measured: 885 MiB for 300)."""

LATENCY_INTERVAL: ConfigOption[Duration] = (
    ConfigOptions.key("metrics.latency.interval").duration_type().at_least(Duration(0)).default_value(Duration(0))
)
"""How often each source subtask emits a latency marker; 0 = never."""

LATENCY_GRANULARITY: ConfigOption[str] = (
    ConfigOptions.key("metrics.latency.granularity")
    .choice_type("single", "operator", "subtask")
    .default_value("operator")
)
"""What latencies are told apart by: only the operator that is reached, the source too, or the source's subtask too."""

LATENCY_HISTORY_SIZE: ConfigOption[int] = (
    ConfigOptions.key("metrics.latency.history-size").int_type().at_least(1).default_value(128)
)
"""How many latencies each histogram remembers."""

SLOT_REQUEST_TIMEOUT: ConfigOption[Duration] = (
    ConfigOptions.key("slot.request.timeout").duration_type().default_value(Duration.of_minutes(5))
)
"""How long a job waits for its slots to register."""

TASK_CANCELLATION_TIMEOUT: ConfigOption[Duration] = (
    ConfigOptions.key("task.cancellation.timeout").duration_type().default_value(Duration.of_minutes(3))
)
"""How long the tasks of a job that is cancelled may take to stop before their processes are ended. In Flink the whole
TaskManager goes down then."""

TASK_TEARDOWN_TIMEOUT: ConfigOption[Duration] = (
    ConfigOptions.key("task.teardown.timeout").duration_type().default_value(Duration.of_seconds(3))
)
"""How long tasks may take to stop after a failure, slots to leave, and a commit to end when the job is cancelled; never
longer than `task.cancellation.timeout`. Below 1 s sinks may not get to tidy up; far above, a hung task keeps a failed
job from restarting, while ending its process hurts no other job. Tidemark's own."""

TASK_STALL_TIMEOUT: ConfigOption[Duration] = (
    ConfigOptions.key("task.stall.timeout").duration_type().at_least(Duration(0)).default_value(Duration(0))
)
"""How long one call of user code may keep a slot of a running job from everything else; then its process is taken to
hang, and the job restarts. 0 = for ever, as in Flink. A call that lasts is shown in any case, with its stack. Opening
functions and restoring state do not count. Tidemark's own."""

FAILOVER_STRATEGY: ConfigOption[str] = (
    ConfigOptions.key("jobmanager.execution.failover-strategy").choice_type("region", "full").default_value("region")
)
"""What a failure restarts: the pipelined region that it is in, or the whole job. Regions that share slots are one."""

SPARK_MASTER: ConfigOption[str | None] = ConfigOptions.key("spark.master").string_type().no_default_value()
"""Master URL of the Spark cluster. Not set: local[n], n the number of slots. Spark's own key."""

RUNTIME_MODE: ConfigOption[str] = (
    ConfigOptions.key("execution.runtime-mode")
    .choice_type("streaming", "batch", "automatic")
    .default_value("streaming")
)
"""How a program is executed; only streaming can be, which reads bounded sources to their end too."""

STATE_BACKEND: ConfigOption[str] = (
    ConfigOptions.key("state.backend.type")
    .choice_type("hashmap", "rocksdb")
    .with_deprecated_keys("state.backend")
    .default_value("hashmap")
)
"""Where keyed state is kept: as objects in the slots' memory, or as rows of RocksDB on their local disks."""

AUTO_GENERATE_UIDS: ConfigOption[bool] = (
    ConfigOptions.key("pipeline.auto-generate-uids").boolean_type().default_value(True)
)
"""Whether stateful operators may go without a uid of the user's; one is then derived from the graph above them."""

CHAIN_DIFFERENT_MAX_PARALLELISM: ConfigOption[bool] = (
    ConfigOptions.key("pipeline.operator-chaining.chain-operators-with-different-max-parallelism")
    .boolean_type()
    .default_value(True)
)
"""Whether operators with different numbers of key groups may share a task."""

TASK_CANCELLATION_INTERVAL: ConfigOption[Duration] = (
    ConfigOptions.key("task.cancellation.interval")
    .duration_type()
    .with_deprecated_keys("task.cancellation-interval")
    .default_value(Duration.of_seconds(30))
)
"""Kept for programs that set it: a slot is asked to stop once, then its process is ended."""

CHECKPOINTING_INTERVAL: ConfigOption[Duration | None] = (
    ConfigOptions.key("execution.checkpointing.interval").duration_type().no_default_value()
)
"""How often checkpoints are taken; not set or 0 = never."""

CHECKPOINTING_MODE: ConfigOption[str] = (
    ConfigOptions.key("execution.checkpointing.mode")
    .choice_type("exactly_once", "at_least_once")
    .default_value("exactly_once")
)
"""Whether barriers are aligned."""

CHECKPOINTING_TIMEOUT: ConfigOption[Duration] = (
    ConfigOptions.key("execution.checkpointing.timeout")
    .duration_type()
    .at_least(Duration.of_millis(10))
    .default_value(Duration.of_minutes(10))
)
"""After so long a checkpoint is given up."""

CHECKPOINTING_MIN_PAUSE: ConfigOption[Duration] = (
    ConfigOptions.key("execution.checkpointing.min-pause")
    .duration_type()
    .at_least(Duration(0))
    .default_value(Duration(0))
)
"""Least time between the end of one checkpoint and the begin of the next."""

MAX_CONCURRENT_CHECKPOINTS: ConfigOption[int] = (
    ConfigOptions.key("execution.checkpointing.max-concurrent-checkpoints").int_type().at_least(1).default_value(1)
)
"""How many checkpoints may be under way."""

TOLERABLE_FAILED_CHECKPOINTS: ConfigOption[int] = (
    ConfigOptions.key("execution.checkpointing.tolerable-failed-checkpoints").int_type().at_least(0).default_value(0)
)
"""How many checkpoints may fail in a row before the job does."""

CHECKPOINT_RETENTION: ConfigOption[str] = (
    ConfigOptions.key("execution.checkpointing.externalized-checkpoint-retention")
    .choice_type("delete_on_cancellation", "retain_on_cancellation", "no_externalized_checkpoints")
    .default_value("no_externalized_checkpoints")
)
"""What becomes of the last checkpoint of a job that was cancelled."""

UNALIGNED_CHECKPOINTS: ConfigOption[bool] = (
    ConfigOptions.key("execution.checkpointing.unaligned.enabled")
    .boolean_type()
    .with_deprecated_keys("execution.checkpointing.unaligned")
    .default_value(False)
)
"""Whether barriers overtake records under way."""

FORCE_UNALIGNED_CHECKPOINTS: ConfigOption[bool] = (
    ConfigOptions.key("execution.checkpointing.unaligned.forced").boolean_type().default_value(False)
)
"""Whether they do so on edges too where it is not sure to be right."""

ALIGNED_CHECKPOINT_TIMEOUT: ConfigOption[Duration] = (
    ConfigOptions.key("execution.checkpointing.aligned-checkpoint-timeout")
    .duration_type()
    .at_least(Duration(0))
    .with_deprecated_keys("execution.checkpointing.alignment-timeout")
    .default_value(Duration(0))
)
"""After so long of alignment an unaligned checkpoint takes over; 0 = unaligned from the start, if enabled."""

SNAPSHOT_COMPRESSION: ConfigOption[bool] = (
    ConfigOptions.key("execution.checkpointing.snapshot-compression").boolean_type().default_value(False)
)
"""Whether state is compressed in snapshots."""

SAVEPOINT_DIRECTORY: ConfigOption[str | None] = (
    ConfigOptions.key("execution.checkpointing.savepoint-dir")
    .string_type()
    .with_deprecated_keys("state.savepoints.dir", "savepoints.state.backend.fs.dir")
    .no_default_value()
)
"""Where savepoints go that name no directory."""

CHECKPOINT_DIRECTORY: ConfigOption[str | None] = (
    ConfigOptions.key("execution.checkpointing.dir")
    .string_type()
    .with_deprecated_keys("state.checkpoints.dir", "state.backend.fs.checkpointdir")
    .no_default_value()
)
"""URI of the directory that checkpoints go to, each job's into its own. Not set: a temporary one that goes away with
the JobMaster; slots on other machines could not reach that, so a cluster needs one."""

CHECKPOINT_STORAGE: ConfigOption[str | None] = (
    ConfigOptions.key("execution.checkpointing.storage")
    .choice_type("jobmanager", "filesystem")
    .with_deprecated_keys("state.checkpoint-storage")
    .no_default_value()
)
"""jobmanager: a temporary directory of the JobMaster, whatever execution.checkpointing.dir says; filesystem: that
directory, which must then be set. Not set: what execution.checkpointing.dir asks for."""

INCREMENTAL_CHECKPOINTS: ConfigOption[bool] = (
    ConfigOptions.key("execution.checkpointing.incremental")
    .boolean_type()
    .with_deprecated_keys("state.backend.incremental")
    .default_value(False)
)
"""Whether a checkpoint refers to files of the ones before it instead of writing all state again."""

RETAINED_CHECKPOINTS: ConfigOption[int] = (
    ConfigOptions.key("execution.checkpointing.num-retained")
    .int_type()
    .at_least(1)
    .with_deprecated_keys("state.checkpoints.num-retained")
    .default_value(1)
)
"""How many completed checkpoints are kept; the next one removes the oldest."""

CHECKPOINTS_AFTER_TASKS_FINISH: ConfigOption[bool] = (
    ConfigOptions.key("execution.checkpointing.checkpoints-after-tasks-finish")
    .boolean_type()
    .with_deprecated_keys("execution.checkpointing.checkpoints-after-tasks-finish.enabled")
    .default_value(True)
)
"""Whether checkpoints and savepoints go on when some tasks have reached the end of their input: their operators stay
open until all tasks have."""

RECOVERY_PATH: ConfigOption[str | None] = (
    ConfigOptions.key("execution.state-recovery.path")
    .string_type()
    .with_deprecated_keys("execution.savepoint.path")
    .no_default_value()
)
"""Directory of the savepoint or checkpoint that the job starts from."""

RECOVERY_CLAIM_MODE: ConfigOption[str] = (
    ConfigOptions.key("execution.state-recovery.claim-mode")
    .choice_type("claim", "no_claim")
    .with_deprecated_keys("execution.savepoint-restore-mode")
    .default_value("no_claim")
)
"""claim: what is restored becomes the job's own and is deleted when newer checkpoints take its place, but never because
the job ends; the job that took it must not run any more, as sinks abort what that has prepared since. no_claim: it
stays as it is, and the first checkpoint is complete in itself."""

IGNORE_UNCLAIMED_STATE: ConfigOption[bool] = (
    ConfigOptions.key("execution.state-recovery.ignore-unclaimed-state")
    .boolean_type()
    .with_deprecated_keys("execution.savepoint.ignore-unclaimed-state")
    .default_value(False)
)
"""Whether a job may start from a savepoint that holds state of operators that it does not have."""

RESCALE_COOLDOWN: ConfigOption[Duration] = (
    ConfigOptions.key("jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling")
    .duration_type()
    .at_least(Duration(0))
    .with_deprecated_keys("jobmanager.adaptive-scheduler.scaling-interval.min")
    .default_value(Duration.of_seconds(30))
)
"""Least time from one change of a job's parallelism to the next; a request that comes sooner waits."""

TMP_DIRECTORIES: ConfigOption[str | None] = (
    ConfigOptions.key("io.tmp.dirs").string_type().with_deprecated_keys("taskmanager.tmp.dirs").no_default_value()
)
"""Where slots keep working files, state that is larger than memory among them; several are joined by commas or the
system's path separator. Not set: the system's directory for temporary files."""

__all__ = [name for name, option in globals().items() if isinstance(option, ConfigOption)]
