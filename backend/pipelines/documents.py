"""Documents as they come from clients and go into rows. Pure.

`runtime.pipeline.document` knows what a pipeline is; this module adds what databases and the trust in documents need:
names without control characters, canonical text in ASCII, and no secrets in what leaves or enters the server as a file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from backend.accounts.views import is_clean_text
from backend.audit.redaction import redacted
from runtime.core.secret_names import SECRET_WORDS
from runtime.pipeline.document import Document, DocumentError, canonical_value, read_document
from runtime.pipeline.validate import PARAMETER

_USER_INFO = re.compile(r"(?<=://)[^/?#\s]*@")
#: "?password=x", as drivers take it
_IN_QUERY = re.compile(rf"""([?&][\w.-]{{0,60}}?(?:{SECRET_WORDS})[\w.-]{{0,60}}=)[^&#\s"'<>]+""", re.I)
_SECRET_NAME = re.compile(
    r"password|passwd|secret|token|credential|sasl|jaas|(^|[._-])(api|access|private)[._-]?key$", re.I
)


class DocumentRefused(Exception):
    """A document cannot be stored.

    Attributes:
        pointer: JSON pointer of the place; empty: all of it.
        reason: what is wrong there.
    """

    def __init__(self, pointer: str, reason: str) -> None:
        super().__init__(f"{pointer or 'the document'}: {reason}")
        self.pointer = pointer
        self.reason = reason


@dataclass(frozen=True)
class Checked:
    """A document that can be stored."""

    document: Document

    @cached_property
    def text(self) -> str:
        """The document in its canonical order, in ASCII and in one line: in SQL it is read by programs only."""
        return json.dumps(canonical_value(self.document), separators=(",", ":"))

    @property
    def name(self) -> str:
        return self.document.name

    @property
    def semantic_hash(self) -> str:
        return self.document.semantic_hash


def check(value: Any) -> Checked:
    """Check a document.

    Raises:
        DocumentRefused: it is not a pipeline, exceeds a limit, or has an invalid name.
    """
    try:
        document = read_document(value)
    except DocumentError as error:
        raise DocumentRefused(error.pointer, error.reason) from None
    if not is_clean_text(document.name) or not document.name.strip() or not document.name.isprintable():
        raise DocumentRefused("/name", "must be printable text")
    return Checked(document)


def without_secrets(value: Any) -> tuple[Any, list[str]]:
    """Return a document without secrets in its URLs, and the JSON pointers of the texts that had some.

    That is user info, and the values of secret-like names in their queries.
    """
    found: list[str] = []
    return _stripped(value, "", found), found


def for_export(value: Any) -> tuple[Any, list[str]]:
    """Return a document as it may leave the server, and the JSON pointers of what was left out of it.

    That is the secrets in URLs, and each value that `refuse_secrets` would refuse: it is empty in what is returned,
    so that this can be imported.
    """
    stripped, found = without_secrets(value)
    places = _secret_places(stripped)
    return _emptied(stripped, "", frozenset(places)), list(dict.fromkeys([*found, *places]))


def refuse_secrets(value: Any) -> None:
    """Refuse a document with a value where a secret's name belongs.

    Raises:
        DocumentRefused: names the place, never the value.
    """
    for pointer in _secret_places(value):
        reason = "contains a secret: name a connection instead, and set the value on the JobManager"
        raise DocumentRefused(pointer, reason)


def _stripped(value: Any, pointer: str, found: list[str]) -> Any:
    if isinstance(value, dict):
        return {name: _stripped(item, f"{pointer}/{_escaped(name)}", found) for name, item in value.items()}
    if isinstance(value, list):
        return [_stripped(item, f"{pointer}/{index}", found) for index, item in enumerate(value)]
    if isinstance(value, str) and "://" in value:
        stripped = _IN_QUERY.sub(r"\1", _USER_INFO.sub("", value))
        if stripped != value:
            found.append(pointer)
        return stripped
    return value


def _emptied(value: Any, pointer: str, places: Collection[str]) -> Any:
    if pointer in places:
        # an empty text keeps the program whole; a number or a flag has no empty value
        return "" if isinstance(value, str) else None
    if isinstance(value, dict):
        return {name: _emptied(item, f"{pointer}/{_escaped(name)}", places) for name, item in value.items()}
    if isinstance(value, list):
        return [_emptied(item, f"{pointer}/{index}", places) for index, item in enumerate(value)]
    return value


def _secret_places(value: Any) -> list[str]:
    return [*_secrets(value, ""), *_secret_parameters(value)]


def _secrets(value: Any, pointer: str) -> Iterable[str]:
    if not isinstance(value, Mapping):
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield from _secrets(item, f"{pointer}/{index}")
        return
    is_options = pointer == "/settings/options"
    for name, item in value.items():
        place = f"{pointer}/{_escaped(name)}"
        if isinstance(item, str) and item:
            # names of options are known, and their values may be options themselves; names of parameters are words
            # such as "key", which mean something else
            is_secret = redacted({name: item})[name] != item if is_options else _SECRET_NAME.search(name) is not None
            if is_secret:
                yield place
        elif _SECRET_NAME.search(name) is not None:
            yield from _texts(item, place)
        else:
            yield from _secrets(item, place)


def _texts(value: Any, pointer: str) -> Iterable[str]:
    """Yield the places of all texts in a value that has the name of a secret."""
    if isinstance(value, str) and value:
        yield pointer
    elif isinstance(value, Mapping) and value.keys() != {PARAMETER}:
        for name, item in value.items():
            yield from _texts(item, f"{pointer}/{_escaped(name)}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, f"{pointer}/{index}")


def _secret_parameters(value: Any) -> Iterable[str]:
    parameters = value.get("parameters") if isinstance(value, Mapping) else None
    for index, parameter in enumerate(parameters if isinstance(parameters, list) else ()):
        if (
            isinstance(parameter, Mapping)
            and parameter.get("default")
            and _SECRET_NAME.search(str(parameter.get("name")))
        ):
            yield f"/parameters/{index}/default"


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
