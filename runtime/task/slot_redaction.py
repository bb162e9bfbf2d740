"""Redaction of the texts that a slot reports: it takes out values of the job's secrets, and of its own environment's.

A program may print its environment, or a library quote it in an error: variables such as AWS_SECRET_ACCESS_KEY are the
slot's, which needs them for the storage of snapshots. Called once an attempt, by the slot's thread.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from runtime.common.secrets import SecretName
from runtime.core.redaction import Redaction
from runtime.core.secret_names import is_secret_column

#: shorter values are found in words, too
_SHORTEST: Final = 8
#: set by shells; the directories are in every traceback
_DIRECTORIES: Final = frozenset({"PWD", "OLDPWD"})
#: ends of names of variables that say where a secret is
_PLACES: Final = ("_FILE", "_PATH", "_DIR", "_URI", "CREDENTIALS")


def redaction_of(secrets: Mapping[SecretName, str]) -> Redaction:
    """Return the redaction of a slot that has been given these secrets."""
    return Redaction({**secrets, **{("environment", name): value for name, value in _variables(os.environ).items()}})


def _variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables whose names say that they are secrets; numbers and places of files are none."""
    return {name: value for name, value in environment.items() if _is_secret(name, value)}


def _is_secret(name: str, value: str) -> bool:
    if name in _DIRECTORIES or name.endswith(_PLACES) or len(value) < _SHORTEST or value.isdecimal():
        return False
    return is_secret_column(name)
