"""Public test kit for users' own jobs; docs/testing.md shows each part with an example.

Whole jobs: `run_job`, `assert_same_result_in_all_modes`, `ScriptedSource`, `MiniCluster`. Single functions and
operators: `harness_of` and the harnesses, `ManualClock`, `assert_program_survives_rescaling`.
"""

from runtime.execution.mini_cluster import MiniCluster as MiniCluster
from runtime.testing.checkpoint_store import MemoryCheckpointStore as MemoryCheckpointStore
from runtime.testing.clock import ManualClock as ManualClock
from runtime.testing.collecting_sink import CollectingSink as CollectingSink
from runtime.testing.harness import OneInputHarness as OneInputHarness
from runtime.testing.harness import OutputRecord as OutputRecord
from runtime.testing.harness import Stage as Stage
from runtime.testing.harness import assert_survives_rescaling as assert_survives_rescaling
from runtime.testing.jobs import ALL_MODES as ALL_MODES
from runtime.testing.jobs import BATCH_ON_MINI_CLUSTER as BATCH_ON_MINI_CLUSTER
from runtime.testing.jobs import BATCH_ON_SPARK as BATCH_ON_SPARK
from runtime.testing.jobs import CONTINUOUS_MODES as CONTINUOUS_MODES
from runtime.testing.jobs import CONTINUOUS_ON_MINI_CLUSTER as CONTINUOUS_ON_MINI_CLUSTER
from runtime.testing.jobs import CONTINUOUS_ON_SPARK as CONTINUOUS_ON_SPARK
from runtime.testing.jobs import MICRO_BATCH_ON_MINI_CLUSTER as MICRO_BATCH_ON_MINI_CLUSTER
from runtime.testing.jobs import MICRO_BATCH_ON_SPARK as MICRO_BATCH_ON_SPARK
from runtime.testing.jobs import STREAMING_MODES as STREAMING_MODES
from runtime.testing.jobs import JobMode as JobMode
from runtime.testing.jobs import JobResult as JobResult
from runtime.testing.jobs import run_job as run_job
from runtime.testing.modes import assert_same_result_in_all_modes as assert_same_result_in_all_modes
from runtime.testing.nodes import check_node_type as check_node_type
from runtime.testing.program_harness import assert_program_survives_rescaling as assert_program_survives_rescaling
from runtime.testing.program_harness import (
    assert_two_input_program_survives_rescaling as assert_two_input_program_survives_rescaling,
)
from runtime.testing.program_harness import harness_of as harness_of
from runtime.testing.program_harness import two_input_harness_of as two_input_harness_of
from runtime.testing.scripted_source import ScriptedCrash as ScriptedCrash
from runtime.testing.scripted_source import ScriptedSource as ScriptedSource
from runtime.testing.scripted_source import crash as crash
from runtime.testing.scripted_source import idle as idle
from runtime.testing.scripted_source import pause as pause
from runtime.testing.scripted_source import record as record
from runtime.testing.scripted_source import until_checkpoint as until_checkpoint
from runtime.testing.scripted_source import watermark as watermark
from runtime.testing.two_input_harness import TwoInputHarness as TwoInputHarness
from runtime.testing.two_input_harness import TwoInputStage as TwoInputStage
from runtime.testing.two_input_harness import (
    assert_two_inputs_survive_rescaling as assert_two_inputs_survive_rescaling,
)

__all__ = [
    "ALL_MODES",
    "BATCH_ON_MINI_CLUSTER",
    "BATCH_ON_SPARK",
    "CONTINUOUS_MODES",
    "CONTINUOUS_ON_MINI_CLUSTER",
    "CONTINUOUS_ON_SPARK",
    "MICRO_BATCH_ON_MINI_CLUSTER",
    "MICRO_BATCH_ON_SPARK",
    "STREAMING_MODES",
    "CollectingSink",
    "JobMode",
    "JobResult",
    "ManualClock",
    "MemoryCheckpointStore",
    "MiniCluster",
    "OneInputHarness",
    "OutputRecord",
    "ScriptedCrash",
    "ScriptedSource",
    "Stage",
    "TwoInputHarness",
    "TwoInputStage",
    "assert_program_survives_rescaling",
    "assert_same_result_in_all_modes",
    "assert_survives_rescaling",
    "assert_two_input_program_survives_rescaling",
    "assert_two_inputs_survive_rescaling",
    "check_node_type",
    "crash",
    "harness_of",
    "idle",
    "pause",
    "record",
    "run_job",
    "two_input_harness_of",
    "until_checkpoint",
    "watermark",
]
