"""Execution of jobs: continuously in Spark barrier stages, or in one loop of this process (MiniCluster)."""

from runtime.execution.application import JobHandle as JobHandle
from runtime.execution.application import submit as submit
