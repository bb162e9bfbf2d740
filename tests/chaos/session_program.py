"""The self-proving job as a program for a session cluster; its argument is the file of a `JobConfig`.

What the job is about is in that file; options, parallelism and checkpoints are the cluster's and those it is run with.
"""

from __future__ import annotations

import sys
from pathlib import Path

from runtime.datastream import StreamExecutionEnvironment
from tests.chaos.job import JobConfig, add_pipelines

env = StreamExecutionEnvironment.get_execution_environment()
add_pipelines(env, JobConfig.read(Path(sys.argv[1])))
env.execute("proving")
