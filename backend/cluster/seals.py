"""Seals: commands and events carry an HMAC under a key of the cluster, so that Redis is a carrier and not an authority.

Whoever can write to Redis could else have TaskManagers start slots that take their code from anywhere, and tell the
leader that TaskManagers or stages are gone. The key derives from the cluster's, which its processes have and
slots do not. Pure; any thread.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.utils.crypto import salted_hmac

COMMAND_SALT = "tidemark.command"
EVENT_SALT = "tidemark.event"
LINE_SALT = "tidemark.leader-line"


def command_seal(worker_name: str, task: str, deadline_ms: object, arguments: Mapping[str, Any]) -> str:
    """Return the seal of a command: for one worker, once, until its deadline.

    Args:
        worker_name: whose queue it goes to.
        task: its name.
        deadline_ms: broker's clock, from which it is not carried out any more.
        arguments: of the task, with the command's id; JSON.
    """
    return _seal(COMMAND_SALT, json.dumps([worker_name, task, deadline_ms, arguments], sort_keys=True))


def event_seal(text: str) -> str:
    """Return the seal of an event's JSON."""
    return _seal(EVENT_SALT, text)


def line_seal(address: str) -> str:
    """Return what a standby says first on the line to the leader at an address: 64 characters of ASCII."""
    return _seal(LINE_SALT, address)


def is_seal(seal: object, expected: str) -> bool:
    """Return whether what came as a seal is the right one."""
    return isinstance(seal, str) and hmac.compare_digest(seal.encode(errors="replace"), expected.encode())


def _seal(salt: str, text: str) -> str:
    key = settings.TIDEMARK_CLUSTER_KEYS[0]
    return salted_hmac(salt, text.encode(errors="surrogatepass"), key, algorithm="sha256").hexdigest()
