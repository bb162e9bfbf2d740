"""Tidemark's engine: Flink's programming model and operations on Spark.

The packages are layers, lowest first: common, core, metrics, state, graph, network, operators, checkpoint, task,
connectors, jobmaster, execution, datastream, client. Each imports only from those below it; import-linter keeps that.
Public packages carry PyFlink's names: ``runtime.common``, ``runtime.datastream``, ``runtime.metrics``.
"""

__version__ = "0.1.0"
