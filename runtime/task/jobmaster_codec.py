"""What JobMasters send, on the wire: pickled, since a deployment carries the user's code, which its reader runs.

Only slots read it, after the sender has proved that it knows the attempt's token (ADR 36).
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import pyarrow as pa

from runtime.task.messages import JobMasterMessage


def encode_jobmaster_messages(messages: Sequence[JobMasterMessage]) -> bytes:
    """Return messages of a JobMaster for the wire."""
    return pickle.dumps(list(messages), protocol=pickle.HIGHEST_PROTOCOL)


def decode_jobmaster_messages(data: bytes | pa.Buffer) -> list[JobMasterMessage]:
    """Return the messages of the slot's own JobMaster. This runs whatever the bytes say: in slots only."""
    messages: list[JobMasterMessage] = pickle.loads(data)
    return messages
