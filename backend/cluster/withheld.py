"""Secrets withheld from the row of a job: arguments, options and job parameters that look like some.

Columns have them hidden, as answers show them, so that no reader of rows has to think of it. The values are sealed in
one column more, under a key of the cluster's secret key: those that run the job, or start it again, ask for them here.
What functions hold is in the graph as they were pickled: for them there is `SecretRef`. Any thread.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings
from django.utils.crypto import salted_hmac

from backend.audit.redaction import redacted, redacted_arguments, secret_arguments, secret_options
from backend.cluster.models import Job
from runtime.common import options
from runtime.common.config_options import ConfigOption
from runtime.common.secrets import SecretName, SecretStore

_CIPHER_SALT: Final = "tidemark.withheld.cipher"
_TAG_SALT: Final = "tidemark.withheld.tag"
_PARTS_OF_GRAPH: Final = ("configuration", "job_parameters")
_NONCE_BYTES: Final = 32
_TAG_BYTES: Final = 32
#: other processes look directories and limits up in the row; none of these options is for secrets
_READ_IN_ROWS: Final = frozenset(
    key
    for option in vars(options).values()
    if isinstance(option, ConfigOption) and option is not options.GLOBAL_JOB_PARAMETERS
    for key in (option.key, *option.deprecated_keys)
)


class UnsealedError(Exception):
    """The withheld values were sealed by a cluster with another secret key, or are damaged."""


@dataclass(frozen=True, slots=True)
class Given:
    """Arguments, options and graph with which a job was submitted.

    Attributes:
        graph: `runtime.graph.codec`'s JSON.
        args: of the program.
        configuration: the submitter's options.
        submission: see `Job.submission`.
    """

    graph: Mapping[str, Any]
    args: Sequence[str]
    configuration: Mapping[str, str]
    submission: Mapping[str, Any]


def withhold(job_id: str, given: Given) -> tuple[Given, str]:
    """Return what the columns of a job's row may have, and the seal of the rest; "": that is nothing."""
    submission = dict(given.submission)
    if "configuration" in submission:
        submission["configuration"] = _shown(submission["configuration"])
    graph = {**given.graph, **{part: _shown(given.graph[part]) for part in _PARTS_OF_GRAPH}}
    shown = Given(graph, redacted_arguments(given.args), _shown(given.configuration), submission)
    rest = {
        "args": list(given.args) if list(shown.args) != list(given.args) else [],
        "options": _left(given.configuration, shown.configuration),
        "submission": _left(given.submission.get("configuration", {}), submission.get("configuration", {})),
        **{part: _left(given.graph[part], shown.graph[part]) for part in _PARTS_OF_GRAPH},
    }
    return shown, _sealed(job_id, json.dumps(rest)) if any(rest.values()) else ""


def given_of(job: Job) -> Given:
    """Return what a job was submitted with.

    Raises:
        UnsealedError: parts of it cannot be read.
    """
    if not job.withheld:
        return Given(job.graph, job.program_args, job.configuration, job.submission)
    rest = json.loads(_unsealed(job.id, job.withheld))
    submission = dict(job.submission)
    if rest["submission"]:
        submission["configuration"] = {**submission["configuration"], **rest["submission"]}
    return Given(
        {**job.graph, **{part: {**job.graph[part], **rest[part]} for part in _PARTS_OF_GRAPH}},
        rest["args"] or job.program_args,
        {**job.configuration, **rest["options"]},
        submission,
    )


class JobSecrets(SecretStore):
    """The secrets of one job: those that it names, and those that it was submitted with. Slots hide both in texts.

    Args:
        named: has the values of those that it names.
        given: what the job was submitted with.
    """

    def __init__(self, named: SecretStore, given: Given) -> None:
        self._named = named
        self._values = secrets_of(given.args, {**given.configuration, **given.graph["job_parameters"]})

    def resolve(self, names: Iterable[SecretName]) -> dict[SecretName, str]:
        return {**self._values, **self._named.resolve(names)}


def secrets_of(args: Sequence[str], given_options: Mapping[str, str]) -> dict[SecretName, str]:
    """Return the secrets in arguments and options, by names under which texts tell of them."""
    of_options = {("options", key): value for key, value in secret_options(given_options).items()}
    return {("arguments", key): value for key, value in secret_arguments(args).items()} | of_options


def _shown(given: Mapping[str, str]) -> dict[str, str]:
    hidden = redacted(given)
    return {key: value if key in _READ_IN_ROWS else hidden[key] for key, value in given.items()}


def _left(given: Mapping[str, str], shown: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in given.items() if shown[key] != value}


# --- the seal: XOR with SHAKE-256 under one key, then HMAC-SHA-256 under another, with the id of the job --------------


def _sealed(job_id: str, text: str) -> str:
    nonce, plain = os.urandom(_NONCE_BYTES), text.encode()
    cipher = _xor(plain, settings.SECRET_KEY, nonce)
    return base64.b64encode(nonce + _tag(job_id, nonce + cipher, settings.SECRET_KEY) + cipher).decode()


def _unsealed(job_id: str, sealed: str) -> str:
    try:
        raw = base64.b64decode(sealed)
    except ValueError as error:
        raise UnsealedError("the seal of the job's secret arguments and options is damaged") from error
    nonce, tag, cipher = raw[:_NONCE_BYTES], raw[_NONCE_BYTES:][:_TAG_BYTES], raw[_NONCE_BYTES + _TAG_BYTES :]
    for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        if hmac.compare_digest(tag, _tag(job_id, nonce + cipher, secret)):
            return _xor(cipher, secret, nonce).decode()
    raise UnsealedError(
        "the job's secret arguments and options were sealed under another TIDEMARK_SECRET_KEY: put that one into "
        "TIDEMARK_FORMER_SECRET_KEYS, or submit the job again"
    )


def _xor(text: bytes, secret: str, nonce: bytes) -> bytes:
    stream = hashlib.shake_256(_key(_CIPHER_SALT, secret) + nonce).digest(len(text))
    return (int.from_bytes(text, "big") ^ int.from_bytes(stream, "big")).to_bytes(len(text), "big")


def _tag(job_id: str, text: bytes, secret: str) -> bytes:
    return hmac.digest(_key(_TAG_SALT, secret), job_id.encode() + text, "sha256")


def _key(salt: str, secret: str) -> bytes:
    return salted_hmac(salt, "", secret, algorithm="sha256").digest()
