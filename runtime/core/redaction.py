"""Redaction: takes the values of secrets out of texts that others read.

A program may print a value, raise an error that quotes it, or write it as a literal, as JSON or into an URL; a parser
may quote a piece of it. All of these forms are looked for; others cannot be, such as what is compressed or encrypted.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus, unquote, urlsplit

from runtime.common.references import KINDS
from runtime.common.secrets import SecretName
from runtime.core.secret_names import is_secret_column

__all__ = ["Redaction"]

#: shorter values are left in texts: they would be found in words, too
_SHORTEST_HIDDEN = 4
#: of a value of several lines; shorter ones are braces and the like
_SHORTEST_LINE = 8
#: different ones in a line; with fewer it is a ruler
_FEWEST_LETTERS = 5
#: of base64; shorter ones are in words
_SHORTEST_PIECE = 8
#: a line as in a file of properties; not the end of base64
_NAMED_LINE = re.compile(r"""["']?(?P<name>[\w.-]+)["']?\s*[:=]\s*["']?(?P<value>[^=\s"',][^"',]*)["']?,?""")
_ESCAPE = re.compile("%[0-9A-F]{2}")
_NO_SECRET = ("none", "null", "true", "false")
_QUERY = re.compile(r"\?[A-Za-z_]+=")
_AUTHORITY_END = re.compile(r"[/?#]")
_BRACKETS = re.compile(r"\[[^\]]*\]")
#: where parsers of URLs cut; the second also where those of queries do
_CUTS = (re.compile(r"[:/?#@\[\]]"), re.compile(r"[:/?#@\[\]=&]"))
_PASSWORD = re.compile(r"\b(?:ssl)?password\s*=\s*('(?:[^'\\]|\\.)*'|[^\s&]+)")
_WHOLE_PASSWORD = re.compile(r"\bpassword\s*=\s*(\S+)")


class Redaction:
    """Takes the values of secrets, and the passwords in them, out of texts. Any thread.

    Args:
        values: by name; values of fewer than four characters are left, and so are such pieces of a password that a
            parser of URLs would cut.
    """

    def __init__(self, values: Mapping[SecretName, str]) -> None:
        shown: dict[str, str] = {}
        for name, value in values.items():
            is_reference = name[0] in KINDS
            told = f"<{name[0]}{name[1]}>" if is_reference else f"<{name[0]}.{name[1]}>"
            for part in (*(_parts_in_texts(value) if is_reference else _parts(value)), *_members(value)):
                if len(part) >= _SHORTEST_HIDDEN and part.strip() and part.lower() not in _NO_SECRET:
                    for form in _forms(part):
                        shown.setdefault(form, told)
        #: the longest first: one may be a part of another
        self._shown = sorted(shown.items(), key=lambda item: -len(item[0]))

    def __call__(self, text: str) -> str:
        """Return the text without them."""
        for value, name in self._shown:
            if value in text:
                text = text.replace(value, name)
        return text

    def of_json(self, value: Any) -> Any:
        """Return a value of JSON without them in its texts; names of members stay."""
        if not self._shown:
            return value
        if isinstance(value, str):
            return self(value)
        if isinstance(value, list):
            return [self.of_json(item) for item in value]
        if isinstance(value, dict):
            return {name: self.of_json(item) for name, item in value.items()}
        return value


def _forms(part: str) -> Iterator[str]:
    """Yield a text as it is, and as a literal, in JSON, HTML and URLs, in hex and base64, and line by line."""
    for written in (part, repr(part)[1:-1], json.dumps(part)[1:-1], json.dumps(part, ensure_ascii=False)[1:-1]):
        yield written
        # JSON in JSON, a literal in a literal
        yield json.dumps(written)[1:-1]
        yield repr(written)[1:-1]
    yield part.replace("'", "\\'")
    yield ascii(part)[1:-1]
    yield json.dumps(part)[1:-1].replace("/", "\\/")
    yield html.escape(part)
    encoded = part.encode("utf-8", "replace")
    yield repr(encoded)[2:-1]
    for escaped in (quote(encoded), quote(encoded, safe=""), quote_plus(encoded)):
        yield escaped
        yield _ESCAPE.sub(lambda found: found[0].lower(), escaped)
    yield encoded.hex()
    for variant in (base64.b64encode, base64.urlsafe_b64encode):
        for before in range(3):
            yield from _base64_pieces(variant, encoded, before)
    yield from _lines(part)


def _base64_pieces(variant: Callable[[bytes], bytes], encoded: bytes, before: int) -> Iterator[str]:
    """Yield what bytes are in base64 behind so many others, as a password is behind a user.

    Letters that others have a share in are left out.
    """
    whole = variant(bytes(before) + encoded).decode().rstrip("=")
    if not before:
        yield whole
    piece = whole[(0, 2, 3)[before] : (before + len(encoded)) * 8 // 6]
    if len(piece) >= _SHORTEST_PIECE:
        yield piece


def _lines(part: str) -> Iterator[str]:
    """Yield the lines of a text that tell something by themselves: the body of a key, and the value behind a telling
    name; not addresses and names beside them, which are in many texts.
    """
    lines = [line.strip() for line in part.splitlines()]
    if len(lines) < 2:
        return
    for line in lines:
        named = _NAMED_LINE.fullmatch(line)
        if named is not None:
            if is_secret_column(named["name"]):
                yield named["value"]
        elif len(line) >= _SHORTEST_LINE and len(set(line)) >= _FEWEST_LETTERS and not line.startswith("-----"):
            yield line


def _members(value: str) -> Iterator[str]:
    """Yield the texts with telling names in JSON, such as the key of a service account."""
    if not value.lstrip().startswith(("{", "[")):
        return
    try:
        open_values = [json.loads(value)]
    except (ValueError, RecursionError):
        return
    while open_values:
        found = open_values.pop()
        if isinstance(found, list):
            open_values += found
        elif isinstance(found, dict):
            open_values += found.values()
            yield from (item for name, item in found.items() if isinstance(item, str) and is_secret_column(name))


def _parts_in_texts(value: str) -> Iterator[str]:
    """Yield the parts of a value, and those of one that takes the place of a password in an URL."""
    yield from _parts(value)
    yield unquote(value)
    yield from _pieces(f"scheme://user:{value}@host")


def _parts(value: str) -> Iterator[str]:
    yield value
    try:
        password = urlsplit(value).password
    except ValueError:
        password = None
    if password:
        yield password
        yield unquote(password)
    for piece in _pieces(value):
        yield piece
        yield unquote(piece)
        # hosts are told in lower case, and what is taken for one is
        yield unquote(piece).lower()
    for pattern in (_PASSWORD, _WHOLE_PASSWORD):
        for found in pattern.finditer(value):
            password = found[1].strip("'")
            yield password
            yield unquote(password)


def _pieces(url: str) -> Iterator[str]:
    """Yield what a parser may take the password for, or parts of it, in an URL whose signs are not escaped.

    With a "/" in the password, its beginning is read as a port, and its rest as a path: errors quote either. What
    stands before the first ":" is left: it is the user's name, such as "postgres", which is no secret and part of many
    texts. So is the host: it stands behind the last "@", unless that one is in an option.
    """
    _, scheme_end, rest = url.partition("://")
    if not scheme_end:
        return
    query = _QUERY.search(rest)
    if query is not None and "@" in rest[: query.start()]:
        rest = rest[: query.start()]
    info, at, _ = rest.rpartition("@")
    if at:
        user, _, password = info.partition(":")
        # no user's name has a "/": somebody has left out the ":" before the password
        hidden = [info if _AUTHORITY_END.search(user) else password]
    else:
        # somebody has left out the host: what is no port is a password
        hosts = _BRACKETS.sub("", _AUTHORITY_END.split(rest, maxsplit=1)[0]).split(",")
        hidden = [port for host in hosts if not (port := host.partition(":")[2]).isdecimal()]
    for text in hidden:
        for cut in _CUTS:
            yield from cut.split(text)
