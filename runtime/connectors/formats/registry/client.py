"""SchemaRegistry: schemas by id and by subject, from a server with Confluent's REST API.

A plain value: it travels with the job, and asks when there is something to ask; what it has learned stays in the
process. Ids never change their schema, so that each is asked for once. A server that is away is asked again for a
while; then the job fails and restarts by its strategy: messages are not bad because of it. Any thread.
Source: Confluent, Schema Registry API reference; Flink, RegistryAvroOptions.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from runtime.common.secrets import SecretRef, revealed, secret_text

PATIENCE_S: Final = 10.0
"""Time for which an absent server is asked again. The slot waits meanwhile: more would hold up its checkpoints."""
TIMEOUT_S: Final = 5.0
"""Of one request."""
_TRIES: Final = 3
"""Number of times that a schema is registered before it counts as refused."""
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0
UNKNOWN_S: Final = 10.0
"""Time for which an unknown id is taken for unknown: a topic full of them asks once in a while, and not for each."""
MAX_SCHEMA_BYTES: Final = 4 << 20
#: codes of a registry's own answers; anybody in front of it may say 404
_NO_SUBJECT: Final = 40401
_NO_SCHEMA: Final = 40403
_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_OPTIONS: Final = frozenset({"ssl.ca.location", "ssl.ca.pem"})
AVRO, JSON = "AVRO", "JSON"


class RegistryError(Exception):
    """The registry is away, or refuses: the job fails."""

    is_self_explanatory = True


class UnknownSchemaError(ValueError):
    """No schema has the id of a message: the message is bad."""


class SchemaRefusedError(RegistryError):
    """A schema cannot be used for a subject."""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as the registry has it.

    Attributes:
        kind: AVRO, JSON or PROTOBUF.
        text: the schema itself.
        has_references: whether it names schemas of other subjects.
    """

    kind: str
    text: str
    has_references: bool = False


class SchemaRegistry:
    """A registry at an URL.

    Args:
        url: https://user:password@host:8081, perhaps with a path, and with the certificates that it is checked by:
            `?ssl.ca.location=file` or `?ssl.ca.pem=…`, escaped. A text or a secret.

    Raises:
        ValueError: the text is no such URL; it is not quoted.
    """

    def __init__(self, url: str | SecretRef) -> None:
        self._url = secret_text(url)
        if isinstance(self._url, str):
            _split(self._url)
        self._lock = threading.Lock()
        self._server: _Server | None = None
        self._schemas: dict[int, RegisteredSchema] = {}
        self._ids: dict[tuple[str, str, str, bool], int] = {}
        #: until when an id is taken for unknown
        self._unknown: dict[int, float] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return SchemaRegistry, (self._url,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SchemaRegistry) and self._url == other._url

    def __hash__(self) -> int:
        return hash(self._url)

    def schema(self, schema_id: int) -> RegisteredSchema:
        """Return the schema with an id.

        Raises:
            UnknownSchemaError: there is none.
            RegistryError: the registry does not answer, or refuses.
        """
        with self._lock:
            found = self._schemas.get(schema_id)
            if found is not None:
                return found
            if time.monotonic() < self._unknown.get(schema_id, 0.0):
                raise UnknownSchemaError(_unknown(schema_id))
            status, answer = self._ask("GET", f"/schemas/ids/{schema_id}", None)
            if status == 404 and answer.get("error_code") == _NO_SCHEMA:
                self._unknown[schema_id] = time.monotonic() + UNKNOWN_S
                raise UnknownSchemaError(_unknown(schema_id))
            if status != 200 or not isinstance(answer.get("schema"), str):
                raise RegistryError(f"the schema registry refuses schema {schema_id}: {_told(status, answer)}")
            kind = str(answer.get("schemaType") or AVRO)
            made = RegisteredSchema(kind, answer["schema"], bool(answer.get("references")))
            self._schemas[schema_id] = made
            return made

    def id_of(self, subject: str, schema: str, kind: str, *, auto_register: bool) -> int:
        """Return the id of a schema in a subject.

        Args:
            subject: by the strategy of topic names, `<topic>-value` or `<topic>-key`.
            schema: as text.
            kind: AVRO or JSON.
            auto_register: whether a schema that the subject does not have is added to it.

        Raises:
            SchemaRefusedError: the subject does not have it, or it is not compatible with those that it has.
            RegistryError: the registry does not answer, or refuses.
        """
        key = (subject, schema, kind, auto_register)
        with self._lock:
            if key in self._ids:
                return self._ids[key]
            body: dict[str, Any] = {"schema": schema}
            if kind != AVRO:
                # older registries know no types: Avro is what they have
                body["schemaType"] = kind
            path = f"/subjects/{quote(subject, safe='')}" + ("/versions" if auto_register else "")
            status, answer = self._ask("POST", path, body)
            for _ in range(_TRIES - 1 if auto_register else 0):
                if status != 409:
                    break
                # another subtask may have made the subject at the same moment
                time.sleep(_FIRST_PAUSE_S)
                status, answer = self._ask("POST", path, body)
            if status == 409:
                raise SchemaRefusedError(
                    f"the schema is not compatible with those of subject {subject!r}: {_told(status, answer)}"
                )
            if status == 404 and answer.get("error_code") in (_NO_SUBJECT, _NO_SCHEMA) and not auto_register:
                raise SchemaRefusedError(
                    f"subject {subject!r} does not have the schema, and auto_register is off: {_told(status, answer)}"
                )
            if status != 200 or not isinstance(answer.get("id"), int):
                raise SchemaRefusedError(f"the registry refuses the schema of {subject!r}: {_told(status, answer)}")
            self._ids[key] = int(answer["id"])
            return self._ids[key]

    def _ask(self, method: str, path: str, body: Any) -> tuple[int, dict[str, Any]]:
        """Return the status and the answer of a request; again while the server is away."""
        if self._server is None:
            try:
                self._server = _Server(revealed(self._url))
            except ValueError as error:
                raise RegistryError(str(error)) from None
        until, pause_s = time.monotonic() + PATIENCE_S, _FIRST_PAUSE_S
        while True:
            try:
                status, answer = self._server.ask(method, path, body)
                if status < 500 and status != 429:
                    return status, answer
                reason = _told(status, answer)
            except (OSError, ValueError) as error:
                reason = str(getattr(error, "reason", None) or error)
            if time.monotonic() + pause_s > until:
                raise RegistryError(f"the schema registry has not answered for {PATIENCE_S:g} s: {reason}")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


class _Server:
    """The server at an URL. It is asked without proxies and without following it elsewhere."""

    def __init__(self, url: str) -> None:
        parts, options = _split(url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        self._base = f"{parts.scheme}://{host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
        self._base += parts.path.rstrip("/")
        self._headers = {"Accept": f"{_TYPE}, application/json", "Content-Type": _TYPE}
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
        try:
            context = ssl.create_default_context(
                cafile=options.get("ssl.ca.location"), cadata=options.get("ssl.ca.pem")
            )
        except OSError as error:
            raise ValueError(f"the certificates of the schema registry cannot be read: {error.strerror}") from None
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context), _NoRedirects()
        )

    def ask(self, method: str, path: str, body: Any) -> tuple[int, dict[str, Any]]:
        """Return status and answer.

        Raises:
            OSError: there is no answer.
            ValueError: it is no JSON.
        """
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data, self._headers, method=method)
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as response:
                return int(response.status), _object(response.read(MAX_SCHEMA_BYTES + 1))
        except urllib.error.HTTPError as error:
            with error:
                text = error.read(1 << 16)
            try:
                return int(error.code), _object(text)
            except ValueError:
                return int(error.code), {"message": text.decode(errors="replace")[:200]}


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Passes redirects on as answers: a password does not go where a server says."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _object(text: bytes) -> dict[str, Any]:
    if len(text) > MAX_SCHEMA_BYTES:
        raise ValueError(f"the answer has more than {MAX_SCHEMA_BYTES >> 20} MiB")
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("the answer is no JSON object")
    return value


def _split(url: str) -> tuple[SplitResult, dict[str, str]]:
    try:
        parts = urlsplit(url)
        _ = parts.port
        # "+" stands in certificates, and means itself
        options = dict(parse_qsl(parts.query.replace("+", "%2B"), strict_parsing=bool(parts.query)))
    except ValueError:
        # without its cause, which quotes parts of a password
        raise ValueError("the URL of the schema registry cannot be read") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("the URL of a schema registry begins with http:// or https://, and names a host")
    if options.keys() - _OPTIONS:
        raise ValueError(f"an option of the schema registry's URL is none of {', '.join(sorted(_OPTIONS))}")
    return parts, options


def _unknown(schema_id: int) -> str:
    return f"the schema registry has no schema {schema_id}"


def _told(status: int, answer: dict[str, Any]) -> str:
    message = str(answer.get("message") or answer.get("detail") or "").strip()[:500]
    code = answer.get("error_code", status)
    return f"{message} ({code})" if message else f"status {status}"
