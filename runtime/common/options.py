"""Options that the engine reads, with Flink's keys and defaults; each is a `ConfigOption`.

`configuration.get(options.HEARTBEAT_TIMEOUT)` gives a Duration, memory sizes are ints in bytes. An option that is not
here is stored but never read. Source: Flink 2.3, configuration reference; descriptions state different defaults.
"""

from __future__ import annotations

from collections.abc import Mapping

from runtime.common.config_options import ConfigOption, ConfigOptions
from runtime.common.time import Duration

PARALLELISM_DEFAULT: ConfigOption[int | None] = (
    ConfigOptions.key("parallelism.default").int_type().at_least(1).no_default_value()
)
"""Parallelism of operators that set none. If not set, the environment uses the number of CPUs."""

PIPELINE_NAME: ConfigOption[str | None] = ConfigOptions.key("pipeline.name").string_type().no_default_value()
"""The job's name; `execute(name)` takes precedence."""

PIPELINE_TAGS: ConfigOption[str] = ConfigOptions.key("pipeline.tags").string_type().default_value("")
"""Tags of the job, by which people find it, separated by semicolons or commas. No option of Flink's."""

PIPELINE_MAX_PARALLELISM: ConfigOption[int | None] = (
    ConfigOptions.key("pipeline.max-parallelism").int_type().at_least(1).at_most(32_768).no_default_value()
)
"""Number of key groups, 1..32768. If not set, Flink's formula derives it from the parallelism."""

OBJECT_REUSE: ConfigOption[bool] = ConfigOptions.key("pipeline.object-reuse").boolean_type().default_value(False)
"""Whether chained operators receive the objects that their predecessor emitted instead of copies."""

GLOBAL_JOB_PARAMETERS: ConfigOption[Mapping[str, str]] = (
    ConfigOptions.key("pipeline.global-job-parameters").map_type().default_value({})
)
"""Parameters that functions read with `RuntimeContext.get_job_parameter`."""

PYTHON_FILES: ConfigOption[str | None] = ConfigOptions.key("python.files").string_type().no_default_value()
"""Python files, packages and archives that the slots import from; paths joined by commas."""

PYTHON_REQUIREMENTS: ConfigOption[str | None] = (
    ConfigOptions.key("python.requirements").string_type().no_default_value()
)
"""Packages that a job of a session cluster needs, as the lines of a requirements file: names with versions. Flink's
option names the file."""

PYTHON_ENVIRONMENT: ConfigOption[str | None] = ConfigOptions.key("python.environment").string_type().no_default_value()
"""Where the slots find the packages of `python.requirements`. The session cluster sets it. No option of Flink's."""

BUNDLE_SIZE: ConfigOption[int] = ConfigOptions.key("python.fn-execution.bundle.size").int_type().default_value(100_000)
"""Maximum number of records that a function processes before timers, watermarks and the next function have their turn.
Tasks process fewer by themselves, about 20 ms of work; with a smaller number results leave sooner."""

BUNDLE_TIME_MS: ConfigOption[int] = ConfigOptions.key("python.fn-execution.bundle.time").long_type().default_value(1000)
"""Maximum time for which a function processes records before that, in ms; tasks stop after about 20 ms anyway."""

AUTO_WATERMARK_INTERVAL: ConfigOption[Duration] = (
    ConfigOptions.key("pipeline.auto-watermark-interval")
    .duration_type()
    .at_least(Duration(0))
    .default_value(Duration.of_millis(200))
)
"""Interval between periodic watermarks; 0 = emit whenever the watermark rises."""

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
"""Whether records may leave before their batch is full; false is the same as an interval of -1."""

BUFFER_TIMEOUT: ConfigOption[Duration] = (
    ConfigOptions.key("execution.buffer-timeout.interval")
    .duration_type()
    .at_least(Duration.of_millis(-1))
    .with_deprecated_keys("execution.buffer-timeout")
    .default_value(Duration.of_millis(100))
)
"""Maximum time that records wait for their batch to fill; 0 = not at all, -1 = until it is full."""

EXECUTION_TARGET: ConfigOption[str] = (
    ConfigOptions.key("execution.target").choice_type("spark", "mini-cluster").default_value("spark")
)
"""Where the job's slots run: in Spark tasks, or in this process. The values are Tidemark's own."""

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
"""Restart strategy after a failure. none, off and disable mean the same, as do the two spellings of the others. If not
set, exponential-delay for jobs with checkpoints and none for jobs without."""

RESTART_FIXED_DELAY_ATTEMPTS: ConfigOption[int] = (
    ConfigOptions.key("restart-strategy.fixed-delay.attempts").int_type().at_least(0).default_value(1)
)
"""Number of restarts after which the job fails."""

RESTART_FIXED_DELAY: ConfigOption[Duration] = (
    ConfigOptions.key("restart-strategy.fixed-delay.delay")
    .duration_type()
    .at_least(Duration(0))
    .default_value(Duration.of_seconds(1))
)
"""Delay before a restart."""

RESTART_EXPONENTIAL_INITIAL_BACKOFF: ConfigOption[Duration] = (
    ConfigOptions.key("restart-strategy.exponential-delay.initial-backoff")
    .duration_type()
    .default_value(Duration.of_seconds(1))
)
"""First delay before a restart."""

RESTART_EXPONENTIAL_MAX_BACKOFF: ConfigOption[Duration] = (
    ConfigOptions.key("restart-strategy.exponential-delay.max-backoff")
    .duration_type()
    .default_value(Duration.of_minutes(1))
)
"""Longest delay before a restart."""

RESTART_EXPONENTIAL_MULTIPLIER: ConfigOption[float] = (
    ConfigOptions.key("restart-strategy.exponential-delay.backoff-multiplier")
    .double_type()
    .at_least(1.0)
    .default_value(1.5)
)
"""Factor by which the delay grows with each restart."""

RESTART_EXPONENTIAL_RESET_THRESHOLD: ConfigOption[Duration] = (
    ConfigOptions.key("restart-strategy.exponential-delay.reset-backoff-threshold")
    .duration_type()
    .default_value(Duration.of_hours(1))
)
"""Time without a failure after which the delay is reset to the first one."""

RESTART_EXPONENTIAL_JITTER: ConfigOption[float] = (
    ConfigOptions.key("restart-strategy.exponential-delay.jitter-factor").double_type().at_least(0.0).default_value(0.1)
)
"""Share of the delay by which it is randomly longer or shorter."""

RESTART_EXPONENTIAL_ATTEMPTS: ConfigOption[int] = (
    ConfigOptions.key("restart-strategy.exponential-delay.attempts-before-reset-backoff")
    .int_type()
    .at_least(0)
    .default_value(2**31 - 1)
)
"""Number of restarts without a reset in between after which the job fails."""

RESTART_FAILURE_RATE_MAX: ConfigOption[int] = (
    ConfigOptions.key("restart-strategy.failure-rate.max-failures-per-interval").int_type().at_least(1).default_value(1)
)
"""Maximum number of failures within one interval; one more fails the job."""

RESTART_FAILURE_RATE_INTERVAL: ConfigOption[Duration] = (
    ConfigOptions.key("restart-strategy.failure-rate.failure-rate-interval")
    .duration_type()
    .default_value(Duration.of_minutes(1))
)
"""Interval over which failures are counted."""

RESTART_FAILURE_RATE_DELAY: ConfigOption[Duration] = (
    ConfigOptions.key("restart-strategy.failure-rate.delay").duration_type().default_value(Duration.of_seconds(1))
)
"""Delay before a restart."""

HEARTBEAT_INTERVAL: ConfigOption[Duration] = (
    ConfigOptions.key("heartbeat.interval")
    .duration_type()
    .at_least(Duration.of_millis(1))
    .default_value(Duration.of_seconds(1))
)
"""Interval between the JobMaster's heartbeat requests to each slot. Flink: 10 s; here a slot is a process of its own,
so its loss is detected sooner."""

HEARTBEAT_TIMEOUT: ConfigOption[Duration] = (
    ConfigOptions.key("heartbeat.timeout")
    .duration_type()
    .at_least(Duration.of_millis(1))
    .default_value(Duration.of_seconds(5))
)
"""Time without a heartbeat after which a slot is lost. Flink: 50 s."""

HA_CLUSTER_ID: ConfigOption[str | None] = (
    ConfigOptions.key("high-availability.cluster-id")
    .string_type()
    .with_deprecated_keys("high-availability.zookeeper.path.namespace", "recovery.zookeeper.path.namespace")
    .no_default_value()
)
"""Id of an application, at most 100 letters, digits, `_`, `.` and `-`: a program that is started again under it resumes
its job from the newest checkpoint. Requires `execution.checkpointing.dir`. If not set, a program that is started again
is another job. No effect on a session cluster. In Flink `high-availability.type` must be set as well."""

SLOT_ORPHAN_TIMEOUT: ConfigOption[Duration] = (
    ConfigOptions.key("high-availability.slot-orphan-timeout")
    .duration_type()
    .at_least(Duration(0))
    .default_value(Duration.of_seconds(45))
)
"""Maximum time that the slots of a session cluster's job keep running after the leading jobmanager has died or hung,
until another one adopts them. After that, or with 0, they end, and the job restarts. An application's slots end with
it. Tidemark's own; in Flink jobs restart."""

CHANNEL_WINDOW_BYTES: ConfigOption[int] = (
    ConfigOptions.key("taskmanager.network.memory.channel-window").memory_type().at_least(1).default_value(1 << 20)
)
"""Bytes that may be in flight on one channel before they are read. Tidemark's own."""

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
"""Maximum size in bytes of one record sent to another process or to the client, or of one line of a file; a larger
one fails the job.
Tidemark's own. A slot needs some three times the size of a record that it forwards (measured: 885 MiB for 300)."""

LATENCY_INTERVAL: ConfigOption[Duration] = (
    ConfigOptions.key("metrics.latency.interval").duration_type().at_least(Duration(0)).default_value(Duration(0))
)
"""Interval at which each source subtask emits latency markers; 0 = never."""

LATENCY_GRANULARITY: ConfigOption[str] = (
    ConfigOptions.key("metrics.latency.granularity")
    .choice_type("single", "operator", "subtask")
    .default_value("operator")
)
"""Granularity of latency histograms: one per operator, also per source, or also per source subtask."""

LATENCY_HISTORY_SIZE: ConfigOption[int] = (
    ConfigOptions.key("metrics.latency.history-size").int_type().at_least(1).default_value(128)
)
"""Number of latencies that each histogram keeps."""

SLOT_REQUEST_TIMEOUT: ConfigOption[Duration] = (
    ConfigOptions.key("slot.request.timeout").duration_type().default_value(Duration.of_minutes(5))
)
"""Maximum time that a job waits for its slots to register."""

TASK_CANCELLATION_TIMEOUT: ConfigOption[Duration] = (
    ConfigOptions.key("task.cancellation.timeout").duration_type().default_value(Duration.of_minutes(3))
)
"""Maximum time that the tasks of a cancelled job may take to stop before their processes are killed. In Flink the whole
TaskManager goes down then."""

TASK_TEARDOWN_TIMEOUT: ConfigOption[Duration] = (
    ConfigOptions.key("task.teardown.timeout").duration_type().default_value(Duration.of_seconds(3))
)
"""Maximum time that tasks may take to stop after a failure, slots to end, and a commit to end when the job is
cancelled; never longer than `task.cancellation.timeout`. Below 1 s sinks may have no time to clean up; if it is long, a
hung task delays the restart of a failed job, although killing its process affects no other job. Tidemark's own."""

TASK_STALL_TIMEOUT: ConfigOption[Duration] = (
    ConfigOptions.key("task.stall.timeout").duration_type().at_least(Duration(0)).default_value(Duration(0))
)
"""Maximum time that one call of user code may block a slot of a running job; after that its process is considered hung,
and the job restarts. 0 = unlimited, as in Flink. Long calls are reported in any case, with their stack. Opening
functions and restoring state do not count. Tidemark's own."""

FAILOVER_STRATEGY: ConfigOption[str] = (
    ConfigOptions.key("jobmanager.execution.failover-strategy").choice_type("region", "full").default_value("region")
)
"""Scope of a restart: the pipelined region of the failed task, or the whole job. Regions that share slots are one."""

SPARK_MASTER: ConfigOption[str | None] = ConfigOptions.key("spark.master").string_type().no_default_value()
"""Master URL of the Spark cluster. If not set, local[n] with n slots. The key is Spark's."""

RUNTIME_MODE: ConfigOption[str] = (
    ConfigOptions.key("execution.runtime-mode")
    .choice_type("streaming", "batch", "automatic")
    .default_value("streaming")
)
"""Execution mode of a program. Streaming reads bounded sources to their end, too; batch reads bounded ones only, emits
final results only and takes no checkpoints; automatic is batch if all sources are bounded."""

BATCH_SHUFFLE_MODE: ConfigOption[str | None] = (
    ConfigOptions.key("execution.batch-shuffle-mode")
    .choice_type("all_exchanges_blocking", "all_exchanges_pipelined")
    .no_default_value()
)
"""How the tasks of a batch exchange records. Blocking: a stage of tasks begins when the one before it has ended, whose
output Spark's shuffle keeps. Pipelined: all tasks run at the same time. If not set, it is blocking on Spark, but
pipelined on a MiniCluster or a session cluster. The key is Flink's, which knows hybrid exchanges, too."""

EXECUTION_MODE: ConfigOption[str] = (
    ConfigOptions.key("execution.mode").choice_type("continuous", "micro-batch").default_value("continuous")
)
"""How a streaming job is executed: its tasks run all the time, or for each batch only. Tidemark's own."""

MICRO_BATCH_TRIGGER: ConfigOption[str] = (
    ConfigOptions.key("execution.micro-batch.trigger")
    .choice_type("processing-time", "once", "available-now")
    .default_value("processing-time")
)
"""When a job in micro-batches takes a batch: with every checkpoint, as `execution.checkpointing.interval` says; just
once; or until it has read all that is there. The last two stop with a savepoint then. The names are Spark's."""

MICRO_BATCH_MAX_ROWS: ConfigOption[int | None] = (
    ConfigOptions.key("execution.micro-batch.max-rows").long_type().at_least(1).no_default_value()
)
"""Records that each subtask of a source reads for one batch at most. If not set, a million at first; then twice as many
whenever a batch took less than 5 s and could have read more, and half as many when it took more than 20 s. Tidemark's.
"""

STATE_BACKEND: ConfigOption[str] = (
    ConfigOptions.key("state.backend.type")
    .choice_type("hashmap", "rocksdb")
    .with_deprecated_keys("state.backend")
    .default_value("hashmap")
)
"""Backend of keyed state: objects in the slots' memory, or rows of RocksDB on their local disks."""

AUTO_GENERATE_UIDS: ConfigOption[bool] = (
    ConfigOptions.key("pipeline.auto-generate-uids").boolean_type().default_value(True)
)
"""Whether stateful operators may omit the uid; one is then derived from the graph upstream of them."""

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
"""No effect; accepted for programs that set it: a slot is asked to stop once, then its process is killed."""

CHECKPOINTING_INTERVAL: ConfigOption[Duration | None] = (
    ConfigOptions.key("execution.checkpointing.interval").duration_type().no_default_value()
)
"""Interval between checkpoints; not set or 0 = no checkpoints."""

CHECKPOINTING_MODE: ConfigOption[str] = (
    ConfigOptions.key("execution.checkpointing.mode")
    .choice_type("exactly_once", "at_least_once")
    .default_value("exactly_once")
)
"""Processing guarantee of checkpoints; at_least_once does not align barriers."""

CHECKPOINTING_TIMEOUT: ConfigOption[Duration] = (
    ConfigOptions.key("execution.checkpointing.timeout")
    .duration_type()
    .at_least(Duration.of_millis(10))
    .default_value(Duration.of_minutes(10))
)
"""Time after which a checkpoint in progress is aborted."""

CHECKPOINTING_MIN_PAUSE: ConfigOption[Duration] = (
    ConfigOptions.key("execution.checkpointing.min-pause")
    .duration_type()
    .at_least(Duration(0))
    .default_value(Duration(0))
)
"""Minimum time between the end of one checkpoint and the start of the next."""

MAX_CONCURRENT_CHECKPOINTS: ConfigOption[int] = (
    ConfigOptions.key("execution.checkpointing.max-concurrent-checkpoints").int_type().at_least(1).default_value(1)
)
"""Maximum number of checkpoints in progress at the same time."""

TOLERABLE_FAILED_CHECKPOINTS: ConfigOption[int] = (
    ConfigOptions.key("execution.checkpointing.tolerable-failed-checkpoints").int_type().at_least(0).default_value(0)
)
"""Number of consecutive checkpoint failures that are tolerated; one more restarts the job."""

CHECKPOINT_RETENTION: ConfigOption[str] = (
    ConfigOptions.key("execution.checkpointing.externalized-checkpoint-retention")
    .choice_type("delete_on_cancellation", "retain_on_cancellation", "no_externalized_checkpoints")
    .default_value("no_externalized_checkpoints")
)
"""Retention of the last checkpoints of a job that failed or was cancelled."""

UNALIGNED_CHECKPOINTS: ConfigOption[bool] = (
    ConfigOptions.key("execution.checkpointing.unaligned.enabled")
    .boolean_type()
    .with_deprecated_keys("execution.checkpointing.unaligned")
    .default_value(False)
)
"""Whether barriers overtake records in flight."""

FORCE_UNALIGNED_CHECKPOINTS: ConfigOption[bool] = (
    ConfigOptions.key("execution.checkpointing.unaligned.forced").boolean_type().default_value(False)
)
"""Whether barriers also overtake records on edges where this may not be correct."""

ALIGNED_CHECKPOINT_TIMEOUT: ConfigOption[Duration] = (
    ConfigOptions.key("execution.checkpointing.aligned-checkpoint-timeout")
    .duration_type()
    .at_least(Duration(0))
    .with_deprecated_keys("execution.checkpointing.alignment-timeout")
    .default_value(Duration(0))
)
"""Alignment time after which a checkpoint becomes unaligned; 0 = unaligned from the start, if enabled."""

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
"""Default directory of savepoints."""

CHECKPOINT_DIRECTORY: ConfigOption[str | None] = (
    ConfigOptions.key("execution.checkpointing.dir")
    .string_type()
    .with_deprecated_keys("state.checkpoints.dir", "state.backend.fs.checkpointdir")
    .no_default_value()
)
"""URI of the checkpoint directory; each job has its own subdirectory. If not set, a temporary directory is used and
deleted with the JobMaster; slots on other machines could not reach it, so a cluster requires this option."""

CHECKPOINT_STORAGE: ConfigOption[str | None] = (
    ConfigOptions.key("execution.checkpointing.storage")
    .choice_type("jobmanager", "filesystem")
    .with_deprecated_keys("state.checkpoint-storage")
    .no_default_value()
)
"""Storage of checkpoints. jobmanager: a temporary directory of the JobMaster, even if execution.checkpointing.dir is
set; filesystem: execution.checkpointing.dir, which must be set. If not set, execution.checkpointing.dir decides."""

INCREMENTAL_CHECKPOINTS: ConfigOption[bool] = (
    ConfigOptions.key("execution.checkpointing.incremental")
    .boolean_type()
    .with_deprecated_keys("state.backend.incremental")
    .default_value(False)
)
"""Whether a checkpoint refers to files of earlier ones instead of writing all state again."""

RETAINED_CHECKPOINTS: ConfigOption[int] = (
    ConfigOptions.key("execution.checkpointing.num-retained")
    .int_type()
    .at_least(1)
    .with_deprecated_keys("state.checkpoints.num-retained")
    .default_value(1)
)
"""Number of completed checkpoints to keep; the next one removes the oldest."""

CHECKPOINTS_AFTER_TASKS_FINISH: ConfigOption[bool] = (
    ConfigOptions.key("execution.checkpointing.checkpoints-after-tasks-finish")
    .boolean_type()
    .with_deprecated_keys("execution.checkpointing.checkpoints-after-tasks-finish.enabled")
    .default_value(True)
)
"""Whether checkpoints and savepoints continue after some tasks have reached the end of their input; operators of
finished tasks then stay open until all tasks have finished."""

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
"""Ownership of the restored snapshot. claim: it becomes the job's own and is deleted when newer checkpoints replace it,
but never because the job ends; the job that took it must no longer run, because sinks abort what that job has prepared
since. no_claim: it is never deleted, and the first checkpoint is self-contained."""

IGNORE_UNCLAIMED_STATE: ConfigOption[bool] = (
    ConfigOptions.key("execution.state-recovery.ignore-unclaimed-state")
    .boolean_type()
    .with_deprecated_keys("execution.savepoint.ignore-unclaimed-state")
    .default_value(False)
)
"""Whether a job may start from a savepoint with state of operators that the job does not have."""

RESCALE_COOLDOWN: ConfigOption[Duration] = (
    ConfigOptions.key("jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling")
    .duration_type()
    .at_least(Duration(0))
    .with_deprecated_keys("jobmanager.adaptive-scheduler.scaling-interval.min")
    .default_value(Duration.of_seconds(30))
)
"""Minimum time between two rescalings of a job; an earlier request waits."""

SCHEDULER: ConfigOption[str] = (
    ConfigOptions.key("jobmanager.scheduler").choice_type("default", "adaptive").default_value("default")
)
"""Bounds of the parallelisms of a job on a session cluster that is submitted without any. default: the lower bound is
the parallelism, so the job waits until it has all its slots. adaptive: the lower bound is 1, so the job runs with the
slots that there are, and is rescaled as slots come and go."""

SCHEDULER_MODE: ConfigOption[str | None] = (
    ConfigOptions.key("scheduler-mode").choice_type("reactive").no_default_value()
)
"""reactive: the bounds of such a job are 1 and the max parallelism of each vertex, whatever its parallelism, so the job
takes all slots that are free."""

RESOURCE_STABILIZATION_TIMEOUT: ConfigOption[Duration] = (
    ConfigOptions.key("jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout")
    .duration_type()
    .at_least(Duration(0))
    .with_deprecated_keys("jobmanager.adaptive-scheduler.resource-stabilization-timeout")
    .default_value(Duration.of_seconds(10))
)
"""Time that a new job waits for more slots once there are enough for its lower bounds."""

EXECUTING_STABILIZATION_TIMEOUT: ConfigOption[Duration] = (
    ConfigOptions.key("jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout")
    .duration_type()
    .at_least(Duration(0))
    .default_value(Duration.of_seconds(60))
)
"""Time that a running job waits for more slots once there are some that it can take, but fewer than it wants."""

TMP_DIRECTORIES: ConfigOption[str | None] = (
    ConfigOptions.key("io.tmp.dirs").string_type().with_deprecated_keys("taskmanager.tmp.dirs").no_default_value()
)
"""Directories for the slots' working files, including state that is larger than memory; several are separated by commas
or the system's path separator. If not set, the system's directory for temporary files."""

CHECKPOINTS_HISTORY: ConfigOption[int] = (
    ConfigOptions.key("web.checkpoints.history")
    .int_type()
    .with_deprecated_keys("jobmanager.web.checkpoints.history")
    .at_least(1)
    .default_value(10)
)
"""Number of the last checkpoints whose statistics are shown, at most 60."""

PEEK_ENABLED: ConfigOption[bool] = ConfigOptions.key("web.peek.enable").boolean_type().default_value(True)
"""Whether operators may look at rows of the job while it runs. Tidemark's own."""

PEEK_MASKED_COLUMNS: ConfigOption[str | None] = (
    ConfigOptions.key("web.peek.masked-columns").string_type().no_default_value()
)
"""Columns whose values a peek hides, beside those that look like secrets; names joined by commas, in any case, at any
depth. * = all. Tidemark's own."""

__all__ = [name for name, option in globals().items() if isinstance(option, ConfigOption)]
