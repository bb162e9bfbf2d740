"""Tells whether a SparkSession can still run anything. A broken one is never repaired: an application starts another
one, a TaskManager ends.
"""

from __future__ import annotations

from py4j.protocol import Py4JError
from pyspark import SparkContext


def session_defect(context: SparkContext) -> str | None:
    """Return why the session is useless, in a few words; None if it is sound. Costs one call into the JVM."""
    process = getattr(context._gateway, "proc", None)
    if process is not None and process.poll() is not None:
        return f"the JVM ended with {process.returncode}"
    try:
        if context._jsc.sc().isStopped():
            return "Spark stopped the session"
    except (Py4JError, OSError) as error:
        return f"the JVM does not answer: {error}"
    return None
