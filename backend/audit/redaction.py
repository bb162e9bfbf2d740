"""The one redactor of what users and logs are shown: options, arguments, failures, log lines, audit details. Pure.

It hides what looks like a secret, by the name that stands before it, or as the user info of a URL. That is the second
line of defence: secrets belong into `SecretRef`s, whose values no process but the jobmanager and the slots ever has. A
value that is passed on without a name cannot be found here. References, ${env:NAME}, tell nothing and are shown.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from runtime.common.references import is_reference
from runtime.core.secret_names import SECRET_WORDS
from runtime.core.well_formed import well_formed

HIDDEN = "******"

_SECRET = re.compile(rf"{SECRET_WORDS}|(?:^|[._-])key$|(?:^|[._-])sas$", re.I)
#: whose values are options themselves: "a:1,b:2" or "a=1;b=2"
_MAPS = re.compile(r"(?:^|[._-])(?:global-job-parameters|job-parameters|properties|parameters|params|env)$", re.I)
#: of a URL: up to its last @ where a password stands in front of one, which may have any sign
_USER_INFO = re.compile(r"(?<=://)(?:[^\s\"<>/@:]{0,200}:[^\s\"<>]{0,1000}@|[^/@\s\"'<>]+@)")
#: words behind which a secret stands in texts, and which are parts of too many names to be SECRET_WORDS
_IN_TEXTS = rf"{SECRET_WORDS}|(?<![^\W_])(?:signature|sig|pass)(?![^\W_])|sharedaccesssignature"
#: name=value and name: value, in query strings, DSNs, JSON, Python, maps. The value ends where no value goes on: behind
#: a separator with a name, or nothing, behind it. Names are no longer than that, or text without spaces would take
#: quadratic time
_NAMED = re.compile(
    rf"""(?P<head>(?<![\w.-])\\?["']?[\w.-]{{0,60}}?(?:{_IN_TEXTS})[\w.-]{{0,60}}\\?["']?\s*(?:=>|[=:])\s*)
         (?P<value>[bru]?"(?:[^"\\]|\\.)*"|[bru]?'(?:[^'\\]|\\.)*'|\\"(?:[^"\\]|\\[^"])*\\"|
         (?:(?:bearer|basic|digest)\s+)?
         (?:\$\{{(?:env|file):[^}}\s]{{0,1100}}\}}|[^\s&;,"'()\[\]{{}}]|
         (?<![\s=:])(?:["'(\[{{](?=[^\s"'()\[\]{{}}])|[&;,](?!\s|$|["']|[\w.-]{{1,60}}\s*[=:])))+)""",
    re.I | re.X,
)
#: ('name', 'value')
_PAIR = re.compile(
    rf"""(?P<head>["'][\w.-]{{0,60}}?(?:{SECRET_WORDS})[\w.-]{{0,60}}["']\s*,\s*)(?P<value>"[^"\n]*"|'[^'\n]*')""",
    re.I,
)
_ELEMENT = re.compile(rf"(?P<head><[\w:.-]{{0,60}}?(?:{SECRET_WORDS})[\w:.-]{{0,60}}>)(?P<value>[^<]+)(?=</)", re.I)
#: what the rest of a header's line is
_HEADER = re.compile(r"(?P<head>\b(?:set-)?cookie\s*:\s*)(?P<value>[^\r\n]+)", re.I)
_KEY_BLOCK = re.compile(r"(?P<head>-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----)(?P<value>[^-]+)")
#: logs in whoever opens it first; servers log paths that they refuse
_LOGIN_LINK = re.compile(r"(?P<head>/login/)(?P<value>[^\s\"'?#<>]+)", re.I)
#: as arguments: --db-password value
_FLAG = re.compile(rf"-{{1,2}}[\w.-]{{0,60}}?(?:{SECRET_WORDS})[\w.-]{{0,60}}", re.I)
#: begins an entry of a map
_ENTRY = re.compile(r"(?<![\w.-])([\w.-]++)\s*+[:=]\s*+")
#: what stands before all but the first
_SEPARATOR = re.compile(r"[,;&\s]")
#: of the cluster, in which uploaded programs are
_ARTIFACT_DIRECTORY = re.compile(r'(?<![^\s"])[^\s"]*/artifacts/[0-9a-f]{64}(?:\.(?:[0-9a-f]{8}-)?[0-9a-f]{8})?/')
_HAS_ANY = re.compile(rf"{_IN_TEXTS}|://|/login/|cookie|-----BEGIN ", re.I)
#: shorter values are found in words, too
_SHORTEST_TELLING = 8
#: what follows such a name and is not a secret: "token: None", "password=******"
_NO_SECRET = ("none", "null", "true", "false", HIDDEN, '""', "''")


def redacted_text(text: str) -> str:
    """Return text with user info in URLs, and values after secret-like names, hidden."""
    if not _HAS_ANY.search(text):
        return text
    text = _USER_INFO.sub(f"{HIDDEN}@", text)
    for pattern in (_NAMED, _PAIR, _ELEMENT, _HEADER, _KEY_BLOCK, _LOGIN_LINK):
        text = pattern.sub(_hide, text)
    return text


def for_users(text: str) -> str:
    """Shorten paths of uploaded programs to their file names, as the cluster's directories are noise to users, and hide
    what looks like a secret: every viewer reads it. Rows can store the result."""
    return redacted_text(_ARTIFACT_DIRECTORY.sub("", well_formed(text)))


def redacted(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the options with secrets hidden: values of options with secret-like names, and secrets within values."""
    return {
        key: HIDDEN if _SECRET.search(key) and not is_reference(str(value)) else _redacted_value(key, str(value))
        for key, value in options.items()
    }


def redacted_arguments(arguments: Sequence[str]) -> list[str]:
    """Return a command line with secrets hidden: `--password x`, `--password=x`, URLs."""
    shown: list[str] = []
    for index, argument in enumerate(arguments):
        is_value = index > 0 and _FLAG.fullmatch(arguments[index - 1]) is not None and not argument.startswith("--")
        is_value = is_value and not is_reference(argument)
        shown.append(HIDDEN if is_value else _redacted_argument(argument))
    return shown


def redacted_together(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return JSON, part by part, with secrets hidden, and texts that quote a secret of another part, too: an option may
    have been made of an argument.
    """
    known: set[str] = set()
    for value in parts.values():
        if isinstance(value, Mapping):
            known.update(
                secret_options({str(key): item for key, item in value.items() if isinstance(item, str)}).values()
            )
        elif isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
            known.update(secret_arguments(value).values())
    return {name: _without(known, redacted_json(value)) for name, value in parts.items()}


def _without(known: set[str], value: Any) -> Any:
    if isinstance(value, str):
        return HIDDEN if any(secret in value for secret in known) else value
    if isinstance(value, Mapping):
        return {name: _without(known, item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without(known, item) for item in value]
    return value


def _redacted_argument(argument: str) -> str:
    """Return an argument with secrets hidden; all behind --password= is its value."""
    name, has_value, value = argument.partition("=")
    if has_value and _FLAG.fullmatch(name) and value.lower() not in _NO_SECRET and not is_reference(value):
        return f"{name}={HIDDEN}"
    return redacted_text(argument)


def secret_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the values that `redacted` hides in options, by their names, to be looked for in other texts. Without
    numbers and short ones, which are in texts by chance.
    """
    shown = redacted(options)
    return {key: str(value) for key, value in options.items() if shown[key] != str(value) and _is_telling(str(value))}


def secret_arguments(arguments: Sequence[str]) -> dict[str, str]:
    """Return those that `redacted_arguments` hides in a command line, by the names before them, or else positions."""
    found: dict[str, str] = {}
    shown = redacted_arguments(arguments)
    for index, argument in enumerate(arguments):
        if shown[index] == argument:
            continue
        name, has_name, value = argument.partition("=")
        if shown[index] == HIDDEN:
            found[arguments[index - 1].lstrip("-")] = argument
        elif has_name and _FLAG.fullmatch(name):
            found[name.lstrip("-")] = value
        else:
            found[str(index)] = argument
    return {name: value for name, value in found.items() if _is_telling(value)}


def redacted_json(value: Any) -> Any:
    """Return JSON with secrets hidden: values under secret-like names, those in texts, and in lists that are command
    lines."""
    if isinstance(value, str):
        return redacted_text(value)
    if isinstance(value, Mapping):
        return {
            name: HIDDEN
            if _SECRET.search(str(name)) and isinstance(item, str) and not is_reference(item)
            else _redacted_item(str(name), item)
            for name, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        if all(isinstance(item, str) for item in value):
            return redacted_arguments(value)
        return [redacted_json(item) for item in value]
    return value


class RedactingFilter(logging.Filter):
    """Hides secrets in the records of a handler, with their arguments and tracebacks."""

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        shown = redacted_text(text)
        if shown != text:
            record.msg, record.args = shown, None
        if record.exc_info and record.exc_text is None:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = redacted_text(record.exc_text)
        return True


def _is_telling(value: str) -> bool:
    return len(value) >= _SHORTEST_TELLING and not value.isdecimal() and value.lower() not in _NO_SECRET


def _redacted_value(key: str, value: str) -> str:
    # bare names of a map's entries count, as those of options do: "key:x"
    return redacted_text(_redacted_entries(value) if _MAPS.search(key) else value)


def _redacted_entries(text: str) -> str:
    """Return the text of a map with the values of secret-like names hidden; in time proportional to its length.

    A value goes on until the next name that has a separator before it.
    """
    heads: list[re.Match[str]] = []
    for head in _ENTRY.finditer(text):
        if not heads or _SEPARATOR.match(text, head.start() - 1):
            heads.append(head)
    shown, shown_until = [], 0
    for number, head in enumerate(heads, 1):
        end = heads[number].start() if number < len(heads) else len(text)
        value = text[head.end() : end].rstrip().rstrip(",;&").rstrip()
        if value and _SECRET.search(head[1]) and not is_reference(value):
            shown += [text[shown_until : head.end()], HIDDEN]
            shown_until = head.end() + len(value)
    return "".join([*shown, text[shown_until:]])


def _redacted_item(key: str, item: Any) -> Any:
    return _redacted_value(key, item) if isinstance(item, str) else redacted_json(item)


def _hide(found: re.Match[str]) -> str:
    value = found["value"]
    if value.lower() in _NO_SECRET or is_reference(value.strip("\"'")):
        return found[0]
    quote = value[0] if value[0] in "\"'" else ""
    return f"{found['head']}{quote}{HIDDEN}{quote}"
