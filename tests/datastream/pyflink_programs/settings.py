"""Configuration and the settings of environments and jobs: what they are by default, and what they become."""

from pyflink.common import Configuration, Duration, Instant, Time
from pyflink.common.config_options import ConfigOptions
from pyflink.datastream import (
    CheckpointingMode,
    ExternalizedCheckpointRetention,
    MemorySize,
    SlotSharingGroup,
    StreamExecutionEnvironment,
)


def main() -> None:
    config = Configuration()
    config.set_string("name", "tide").set_integer("height", 7).set_boolean("rising", True).set_float("speed", 0.5)
    print(config.get_string("name", ""), config.get_integer("height", 0), config.get_boolean("rising", False))
    print(config.get_float("speed", 0.0), config.get_integer("missing", 3), config.get_string("missing", "none"))
    print(sorted(config.key_set()), sorted(config.to_dict().items()))
    other = Configuration(config)
    print(other.remove_config("name"), other.remove_config("name"), other.contains_key("height"))
    both = Configuration()
    both.add_all(other, "my.")
    print(sorted(both.to_dict()), other == Configuration(other))
    print(ConfigOptions.key("x").int_type().default_value(3) is not None)
    print(Configuration.parse_list_value("a;b;c"), Configuration.parse_list_value("[a, b]"))

    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(3).set_max_parallelism(12).set_buffer_timeout(20)
    print(env.get_parallelism(), env.get_max_parallelism(), env.get_buffer_timeout(), env.is_chaining_enabled())
    print(env.is_chaining_of_operators_with_different_max_parallelism_enabled())
    env.disable_operator_chaining()
    print(env.is_chaining_enabled(), env.get_checkpoint_interval(), env.get_checkpointing_mode())

    job = env.get_config()
    print(job.get_parallelism(), job.get_auto_watermark_interval(), job.is_object_reuse_enabled())
    print(
        job.get_latency_tracking_interval(), job.has_auto_generated_uids_enabled(), job.get_task_cancellation_interval()
    )
    job.set_auto_watermark_interval(50).enable_object_reuse().set_latency_tracking_interval(5)
    job.set_global_job_parameters({"city": "Emden"})
    print(job.get_auto_watermark_interval(), job.is_object_reuse_enabled(), job.get_latency_tracking_interval())
    print(job.get_global_job_parameters())

    checkpoints = env.get_checkpoint_config()
    print(checkpoints.is_checkpointing_enabled(), checkpoints.get_checkpoint_timeout())
    print(checkpoints.get_min_pause_between_checkpoints(), checkpoints.get_max_concurrent_checkpoints())
    print(checkpoints.get_tolerable_checkpoint_failure_number(), checkpoints.is_externalized_checkpoints_enabled())
    print(checkpoints.is_unaligned_checkpoints_enabled(), checkpoints.is_force_unaligned_checkpoints())
    env.enable_checkpointing(5_000, CheckpointingMode.AT_LEAST_ONCE)
    checkpoints.set_checkpoint_timeout(60_000).set_min_pause_between_checkpoints(100)
    checkpoints.set_tolerable_checkpoint_failure_number(2).enable_unaligned_checkpoints()
    checkpoints.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION)
    checkpoints.set_aligned_checkpoint_timeout(Duration.of_seconds(3))
    print(env.get_checkpoint_interval(), checkpoints.get_checkpointing_mode(), checkpoints.get_checkpoint_timeout())
    print(checkpoints.get_min_pause_between_checkpoints(), checkpoints.get_tolerable_checkpoint_failure_number())
    print(checkpoints.is_unaligned_checkpoints_enabled(), checkpoints.get_externalized_checkpoint_retention())
    print(checkpoints.get_aligned_checkpoint_timeout() == Duration.of_seconds(3))

    print(MemorySize.of_mebi_bytes(3), MemorySize(bytes_size=1_000), MemorySize(bytes_size=3 << 30).get_mebi_bytes())
    print(
        MemorySize(bytes_size=1) < MemorySize(bytes_size=2),
        MemorySize.of_mebi_bytes(1) == MemorySize(bytes_size=1 << 20),
    )
    group = SlotSharingGroup.builder("g").set_cpu_cores(1.5).set_task_heap_memory_mb(64).build()
    print(group.get_name(), group.get_cpu_cores(), group.get_task_heap_memory(), group.get_managed_memory())
    print(Time.minutes(2).to_milliseconds(), Instant.of_epoch_milli(1_500).to_epoch_milli(), Instant(3, 5))


if __name__ == "__main__":
    main()
