"""OpenMetrics text, which Prometheus reads: families of samples, each with its labels. Pure.

Source: OpenMetrics 1.0. Families are gauges: counts are those of a job's present attempt or of its rows, and may fall.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

CONTENT_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
Labels = tuple[tuple[str, str], ...]

_ESCAPED: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})


class Exposition:
    """Samples by family, in the order in which families are first named.

    Args:
        families: name → what it says, of every family that may be exposed.
    """

    def __init__(self, families: Mapping[str, str]) -> None:
        self._families = families
        self._samples: dict[str, dict[Labels, float]] = {}

    def add(self, name: str, value: float | int | None, **labels: str) -> None:
        """Add a sample; None: the value is not known, and nothing is said.

        Raises:
            KeyError: no such family.
        """
        if name not in self._families:
            raise KeyError(name)
        if value is not None:
            self._samples.setdefault(name, {})[tuple(sorted(labels.items()))] = value

    def text(self) -> str:
        """Return the whole text."""
        lines: list[str] = []
        for name, samples in self._samples.items():
            lines += (f"# TYPE {name} gauge", f"# HELP {name} {_escaped(self._families[name])}")
            lines += (f"{name}{_labels(labels)} {_number(value)}" for labels, value in samples.items())
        return "\n".join((*lines, "# EOF", ""))


def _labels(labels: Iterable[tuple[str, str]]) -> str:
    inner = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
    return f"{{{inner}}}" if inner else ""


def _escaped(text: str) -> str:
    # a lone surrogate cannot be encoded, a carriage return would end the line for some readers
    return text.encode(errors="replace").decode().replace("\r", " ").translate(_ESCAPED)


def _number(value: float) -> str:
    if isinstance(value, int):
        return str(int(value))
    if math.isnan(value):
        return "NaN"
    return repr(value) if math.isfinite(value) else ("+Inf" if value > 0 else "-Inf")
