"""Redaction of secrets in options that are shown to users. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_SECRET = re.compile(
    r"password|passwd|secret|token|credential|sasl|jaas|(^|[._-])(api|access|private)?[._-]?key$", re.I
)
_USER_INFO = re.compile(r"(?<=://)[^/@\s]+@")
HIDDEN = "******"


def redacted(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the options with secrets hidden: values of options with secret-like names, and user info in URLs."""
    return {
        key: HIDDEN if _SECRET.search(key) else _USER_INFO.sub(f"{HIDDEN}@", str(value))
        for key, value in options.items()
    }
