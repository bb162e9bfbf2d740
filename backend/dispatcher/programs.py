"""From an uploaded program to its job graph: parses the request and extracts the graph in a child process.

At most `MAX_EXTRACTIONS` children run at a time, as each is a Python process with the engine; more programs wait for
their turn.
"""

from __future__ import annotations

import json
import logging
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from django.conf import settings
from django.http import QueryDict
from rest_framework import exceptions

from backend.accounts.errors import Unavailable
from backend.accounts.submission import check_program
from backend.accounts.views import is_clean_text
from backend.audit.redaction import HIDDEN, redacted_text
from backend.cluster.checkpoint_home import cluster_storage
from backend.cluster.connections import without_connection
from backend.cluster.environment_files import environment_files
from backend.cluster.models import Artifact
from backend.cluster.program_files import program_files, storage_problems
from backend.cluster.storage_calls import ask_location
from backend.cluster.withheld import secrets_of
from backend.dispatcher.api.base import check_id, whole_number
from backend.dispatcher.environments import ENVIRONMENTS, environment_of
from backend.dispatcher.errors import BadRequest
from backend.dispatcher.planning_queue import ClientLeftError, PlanningQueue, QueueFullError
from runtime.checkpoint.errors import CheckpointStorageError
from runtime.client.errors import OUTPUT_HEADING, ExtractionAbandonedError, ExtractionError
from runtime.client.extract import ExtractedJob, extract_job_graph
from runtime.common import options
from runtime.core.redaction import Redaction
from runtime.graph.codec import job_graph_to_json
from runtime.graph.plan import job_plan
from runtime.state.handles import DamagedSnapshotError
from runtime.task.python_files import unpacked_here

MAX_EXTRACTIONS = 2
MAX_WAITING = 64
"""Each holds a thread and a client's connection."""
MAX_WAIT_S = 120.0
"""Including the program's own time, this stays below the clients' timeouts."""
EXTRACTION_TIMEOUT_S = 60.0
MAX_PARALLELISM = 32768
MAX_ARGUMENTS = 1000

CLAIM_MODES = ("NO_CLAIM", "CLAIM")

_REQUIREMENTS = options.PYTHON_REQUIREMENTS.key
_ENVIRONMENT = options.PYTHON_ENVIRONMENT.key

logger = logging.getLogger(__name__)
_queue = PlanningQueue(MAX_EXTRACTIONS, MAX_WAITING, MAX_WAIT_S)


class PlanningBusy(Unavailable):
    """Too many programs are being planned; the client is told when to retry."""

    default_code = "planning_busy"

    def __init__(self, full: QueueFullError) -> None:
        super().__init__(str(full))
        #: seconds, for Retry-After
        self.wait = full.retry_after_s


class ClientLeft(exceptions.APIException):
    """The client disconnected, so its program was not planned; only logs show this."""

    status_code = 499
    default_detail = "The client disconnected."
    default_code = "client_left"


@dataclass(frozen=True, slots=True)
class ProgramRequest:
    """Parameters for starting a program."""

    args: Sequence[str] = ()
    entry: str | None = None
    parallelism: int | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)
    job_id: str | None = None
    restore: Mapping[str, str] = field(default_factory=dict)
    """Options that override the program's own: the snapshot to restore from, and how."""


def read_program_request(body: Any, query: QueryDict) -> ProgramRequest:
    """Parse a plan or run request, given in its body or (by Flink's page) in its query; the body takes precedence.

    Raises:
        BadRequest: a field has the wrong type, or names something that does not exist.
    """
    if not isinstance(body, dict):
        raise BadRequest("The body must be a JSON object.")
    entry = _text(body, "entryClass") or _text(body, "entry-class") or query.get("entry-class") or None
    parallelism = body.get("parallelism")
    if parallelism in (None, ""):
        parallelism = query.get("parallelism") or None
    job_id = _text(body, "jobId") or query.get("jobid") or None
    if job_id is not None:
        check_id("jobId", job_id)
    configuration = body.get("flinkConfiguration") or {}
    if not isinstance(configuration, dict) or not all(map(is_clean_text, [*configuration, *configuration.values()])):
        raise BadRequest("flinkConfiguration must be an object with string values.")
    if _ENVIRONMENT in configuration:
        raise BadRequest(f"{_ENVIRONMENT} is set by the cluster: say what is needed as {_REQUIREMENTS}.")
    configuration = _with_requirements(configuration, body.get("pythonRequirements"))
    args = _arguments(body, query)
    if any(HIDDEN in text for text in (*args, *configuration.values())):
        raise BadRequest(f"Give the secrets again that answers show as {HIDDEN}.")
    return ProgramRequest(
        args=args,
        entry=entry,
        parallelism=None if parallelism is None else whole_number("parallelism", parallelism, 1, MAX_PARALLELISM),
        configuration=configuration,
        job_id=job_id,
        restore=_restore(body, query),
    )


def _with_requirements(configuration: Mapping[str, str], given: object) -> Mapping[str, str]:
    """Return options with the lines of `pythonRequirements`, which is another way to give `python.requirements`."""
    if not given:
        return configuration
    if not isinstance(given, list) or not all(map(is_clean_text, given)):
        raise BadRequest("pythonRequirements must be a list of texts, such as geopy>=2,<3.")
    if _REQUIREMENTS in configuration:
        raise BadRequest(f"Give Python requirements as pythonRequirements or as {_REQUIREMENTS}, not both.")
    return {**configuration, _REQUIREMENTS: "\n".join(given)}


def _restore(body: Mapping[str, Any], query: QueryDict) -> dict[str, str]:
    """Return options of the job for Flink's fields about the savepoint to restore from."""
    path = (_text(body, "savepointPath") or query.get("savepointPath") or "").strip()
    allow = body.get("allowNonRestoredState")
    if allow is None:
        allow = query.get("allowNonRestoredState", "false")
    if not isinstance(allow, bool) and str(allow).lower() not in ("true", "false"):
        raise BadRequest("allowNonRestoredState must be true or false.")
    texts = (_text(body, name) or query.get(name) or "" for name in ("claimMode", "restoreMode"))
    mode = next((text for text in texts if text), "NO_CLAIM").upper()
    if mode not in CLAIM_MODES:
        raise BadRequest(f"claimMode must be {' or '.join(CLAIM_MODES)}, not {mode[:40]!r}.")
    if not path:
        return {}
    try:
        files = cluster_storage().signed_files()
        directory = ask_location(path, lambda: files.load(path)).options.directory
    except (CheckpointStorageError, DamagedSnapshotError) as error:
        raise BadRequest(f"savepointPath: {error}") from error
    except OSError as error:
        # the jobmanager may be able to reach it
        logger.warning("savepoint %s cannot be read: %s", path, error)
        directory = path
    return {
        options.RECOVERY_PATH.key: directory,
        options.RECOVERY_CLAIM_MODE.key: mode.lower(),
        options.IGNORE_UNCLAIMED_STATE.key: str(allow).lower(),
    }


def _arguments(body: Mapping[str, Any], query: QueryDict) -> list[str]:
    listed = body.get("programArgsList")
    if listed is None:
        one_text = _text(body, "programArgs") or query.get("program-args") or ""
        listed = _words(one_text) or [a for text in query.getlist("programArg") for a in text.split(",") if a]
    if not isinstance(listed, list) or len(listed) > MAX_ARGUMENTS or not all(map(is_clean_text, listed)):
        raise BadRequest(f"programArgsList must be a list of at most {MAX_ARGUMENTS} strings.")
    return listed


def _words(text: str) -> list[str]:
    """Return the arguments in a text; quotes hold one together, and backslashes are themselves.

    Raises:
        BadRequest: a quote has no end.
    """
    reader = shlex.shlex(text, posix=True)
    reader.whitespace_split, reader.commenters, reader.escape = True, "", ""
    try:
        return list(reader)
    except ValueError as error:
        raise BadRequest("programArgs: a quote has no end.") from error


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if value is None:
        return ""
    if not is_clean_text(value):
        raise BadRequest(f"{name} must be a string.")
    return str(value)


def extract(
    artifact: Artifact, wanted: ProgramRequest, has_left: Callable[[], bool], streams: Sequence[str] = ()
) -> ExtractedJob:
    """Extract the job that a program defines.

    Args:
        artifact: the program.
        wanted: how it is to be run.
        has_left: returns whether the client is gone: its program is then neither started nor left running.
        streams: names of the program that hold streams of which `ExtractedJob.streams` is to tell.

    Raises:
        BadRequest: it defines none; the message is the program's error, with the traceback of its own code.
        PlanningBusy: too many programs are being planned.
        ClientLeft: the client is gone.
        StorageProblem: the program cannot be read.
        SubmissionRefused: the cluster does not run it; it may have done when the program was uploaded.

    Texts of the program are without the secrets among its arguments and options, as far as it has them whole.
    """
    redact = Redaction(secrets_of(wanted.args, wanted.configuration))
    check_program(artifact.file_name, artifact.id, wanted.configuration)
    files = program_files()
    asked = wanted.configuration.get(_REQUIREMENTS, "")
    environment = environment_of(asked)
    with storage_problems(ENVIRONMENTS):
        packages = unpacked_here(environment_files().location(environment)) if environment else None
    # the wait may be long, so release the database connection
    with without_connection(), _turn(artifact.file_name, has_left, redact), files.opened(artifact.path) as program:
        extracted = extract_job_graph(
            program,
            wanted.args,
            parallelism=wanted.parallelism,
            configuration=wanted.configuration,
            environment=packages,
            entry=_entry_of(artifact, wanted),
            display_name=artifact.file_name,
            import_from=files.import_location(artifact.path),
            timeout_s=EXTRACTION_TIMEOUT_S,
            streams=streams,
            is_abandoned=has_left,
            confinement=settings.TIDEMARK_CONFINEMENT,
        )
    _check_texts(extracted.graph_json)
    return _without_secrets(_with_environment(extracted, asked, environment), redact)


def _entry_of(artifact: Artifact, wanted: ProgramRequest) -> str | None:
    """Return the module that starts the job; None: the program itself, which lists show by the name of its file."""
    if wanted.entry and wanted.entry != artifact.file_name:
        return wanted.entry
    module = artifact.entry.get("module")
    return None if module is None else str(module)


def _with_environment(extracted: ExtractedJob, asked: str, environment: str) -> ExtractedJob:
    """Return a job whose options say where its Python packages are, and nothing else that the program says of that."""
    configuration = dict(extracted.graph.configuration)
    is_said = configuration.pop(_ENVIRONMENT, None) is not None
    wanted = configuration.get(_REQUIREMENTS, "")
    if wanted != asked:
        # by the program itself, for its functions
        environment = environment_of(wanted)
    if not environment and not is_said:
        return extracted
    if environment:
        configuration[_ENVIRONMENT] = environment
    graph = replace(extracted.graph, configuration=configuration)
    return replace(extracted, graph=graph, graph_json={**extracted.graph_json, "configuration": configuration})


def extract_text(source: str, file_name: str, has_left: Callable[[], bool]) -> ExtractedJob:
    """Extract the job that the text of a program defines; nothing is stored.

    Raises:
        BadRequest, PlanningBusy, ClientLeft: as `extract`.
    """
    with without_connection(), _turn(file_name, has_left), TemporaryDirectory(prefix="tidemark-plan-") as directory:
        program = Path(directory) / "pipeline.py"
        program.write_text(source, encoding="utf-8")
        return extract_job_graph(
            program,
            display_name=file_name,
            timeout_s=EXTRACTION_TIMEOUT_S,
            is_abandoned=has_left,
            confinement=settings.TIDEMARK_CONFINEMENT,
        )


@contextmanager
def _turn(file_name: str, has_left: Callable[[], bool], redact: Callable[[str], str] = str) -> Iterator[None]:
    """Hold a planning turn for the block; errors of the extraction become those of the routes."""
    try:
        with _queue.turn(has_left):
            yield
    except QueueFullError as full:
        raise PlanningBusy(full) from full
    except (ClientLeftError, ExtractionAbandonedError) as error:
        logger.info("%s is not planned: its client disconnected", file_name)
        raise ClientLeft from error
    except ExtractionError as error:
        raise BadRequest([redacted_text(redact(text)) for text in _told(error)]) from error


def _told(error: ExtractionError) -> list[str]:
    """Return the message, and if present the traceback of the program's own code and the output before the error."""
    printed = f"{OUTPUT_HEADING}\n{error.output}" if error.output.strip() else ""
    return [text for text in (str(error), error.traceback, printed) if text]


def _without_secrets(extracted: ExtractedJob, redact: Callable[[str], str]) -> ExtractedJob:
    """Return a job with names, descriptions, warnings and output redacted; what its functions hold stays."""
    graph = extracted.graph
    vertices = [
        replace(
            vertex,
            name=redact(vertex.name),
            operators=[
                replace(operator, name=redact(operator.name), description=redact(operator.description))
                for operator in vertex.operators
            ],
        )
        for vertex in graph.vertices
    ]
    shown = replace(graph, name=redact(graph.name), vertices=vertices)
    return replace(
        extracted,
        graph=shown,
        graph_json=extracted.graph_json if shown == graph else job_graph_to_json(shown),
        plan_json=extracted.plan_json if shown == graph else job_plan(shown),
        stdout_tail=redacted_text(redact(extracted.stdout_tail)),
        warnings=[redacted_text(redact(text)) for text in extracted.warnings],
    )


def _check_texts(graph: Mapping[str, Any]) -> None:
    """Refuse names that a database cannot store."""
    text = json.dumps(graph, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadRequest("A name in the program is not valid text: it contains a lone surrogate.") from error
    if "\\u0000" in text:
        raise BadRequest("A name in the program contains a NUL character.")
