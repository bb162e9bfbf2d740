"""Jars that programs written for PyFlink name: which of them the runtime does without.

Connectors and formats that are Java's there are Python here. A jar that holds nothing else has no effect; any other
one holds classes that the program counts on, and nothing here would load them. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

__all__ = ["unneeded_jars"]

_UNNEEDED: Final = re.compile(
    r"(?:flink-(?:sql-)?(?:connector-(?:base|files|kafka)|avro|avro-confluent-registry|csv|json|parquet)|kafka-clients)"
    r"(?:-\d[\w.-]*)?\.jar"
)


def unneeded_jars(paths: Iterable[str]) -> list[str]:
    """Return the file names of jars that hold connectors and formats which the runtime has itself.

    Args:
        paths: paths or URLs; several in one text are separated by semicolons, as in Flink's `pipeline.jars`.

    Raises:
        ValueError: one of them holds something else, or may; the message names it.
    """
    names = [path.strip().replace("\\", "/").rpartition("/")[2] for text in paths for path in text.split(";")]
    for name in names:
        if _UNNEEDED.fullmatch(name) is None:
            raise ValueError(
                f"{name!r} may hold Java classes that the program needs, and nothing here would load them; only jars "
                "of Flink's connectors for Kafka and files and of its formats can be named, which are not needed here"
            )
    return names
