"""Helpers for tests of several packages: Spark clusters, programs run as processes, waiting for a condition."""
