"""Kafka as source and sink: librdkafka reads and writes, kafka-python ends and lists transactions.

librdkafka cannot end a transaction that another process has begun, nor describe one; kafka-python writes too slowly. A
slot writes a transaction with the one, and whoever has the checkpoint commits it with the other, in any process: see
`transactions`. The names of PyFlink's `connectors.kafka` are in `runtime.datastream.connectors.kafka`.
"""

from __future__ import annotations

import importlib.util

_NEEDED = {"confluent_kafka": "confluent-kafka", "kafka": "kafka-python"}

_missing = [package for module, package in _NEEDED.items() if importlib.util.find_spec(module) is None]
if _missing:
    raise ImportError(
        f"Kafka needs {' and '.join(_missing)}; install both clients with: pip install 'tidemark[kafka]', here and "
        "where the tasks run"
    )
