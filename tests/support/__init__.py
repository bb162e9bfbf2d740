"""What tests of several packages share: Spark clusters, programs run as processes, waiting for a condition."""
