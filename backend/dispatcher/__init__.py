"""Flink's REST API: the Dispatcher that Flink's own tools and clients speak to."""
