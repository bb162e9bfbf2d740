"""Reads docker/compose.yaml, which keeps to a small part of YAML: block mappings, anchors, values as in JSON.

What is outside of that part is refused, so that the file stays readable by this and by every YAML parser alike.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_PLAIN = re.compile(r"[\w./:-]+")
_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


class ComposeFormatError(ValueError):
    """A line is not in the part of YAML that the file keeps to."""


def read_compose(path: Path) -> dict[str, Any]:
    """The file as plain values, its variables not filled in."""
    lines = [
        (len(line) - len(line.lstrip()), line.strip())
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    ]
    reader = _Reader(lines)
    value = reader.mapping(0)
    if reader.position < len(lines):
        raise ComposeFormatError(lines[reader.position][1])
    return value


class _Reader:
    def __init__(self, lines: list[tuple[int, str]]) -> None:
        self._lines = lines
        self._anchors: dict[str, Any] = {}
        self.position = 0

    def mapping(self, indent: int) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        while self.position < len(self._lines) and self._lines[self.position][0] == indent:
            text = self._lines[self.position][1]
            key, colon, rest = text.partition(":")
            if not colon or (rest and rest[0] != " ") or key in own:
                raise ComposeFormatError(text)
            self.position += 1
            value = self._value(rest.strip(), indent)
            if key == "<<":
                merged = value
            else:
                own[key] = value
        return {**merged, **own}

    def _value(self, text: str, indent: int) -> Any:
        if text.startswith("*"):
            return self._anchors[text[1:]]
        if text == "" or text.startswith("&"):
            deeper = self._lines[self.position][0] if self.position < len(self._lines) else 0
            value = self.mapping(deeper) if deeper > indent else None
            if text:
                self._anchors[text[1:]] = value
            return value
        if text[0] in '["' or text in ("true", "false"):
            return json.loads(text)
        if not _PLAIN.fullmatch(text):
            raise ComposeFormatError(text)
        return int(text) if text.isdecimal() else text


def filled_in(value: Any, variables: Mapping[str, str]) -> Any:
    """The value with ${NAME}, ${NAME:-default} and ${NAME:?message} replaced.

    Raises:
        KeyError: a variable without a default is not given.
    """
    if isinstance(value, dict):
        return {key: filled_in(item, variables) for key, item in value.items()}
    if isinstance(value, list):
        return [filled_in(item, variables) for item in value]
    if isinstance(value, str):
        return _VARIABLE.sub(lambda match: _variable(match, variables), value)
    return value


def _variable(match: re.Match[str], variables: Mapping[str, str]) -> str:
    name, kind, default = match.groups()
    if kind == "-":
        return variables.get(name) or default
    return variables[name]
