"""Execution of jobs: continuously in Spark barrier stages, or in one loop of this process (MiniCluster)."""
