"""Previews: this web process runs a document's program in a child with limits, and keeps what it tells in Redis.

Any web process can show or stop a preview. Nothing of it is in SQL: ten minutes later it is forgotten, and a process
that dies leaves a document whose beat is missing, which readers see as lost. A thread for each preview; any thread may
call.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, Final

import redis
from django.conf import settings
from django.contrib.auth.models import User

from backend.cluster import bus
from backend.cluster.leader_bus import Announcer
from backend.cluster.models import new_id
from backend.cluster.services import PreviewUnknownError, read_preview
from backend.config import environment
from backend.pipelines.building import compiled, connections_read
from backend.pipelines.connections import values_of
from backend.pipelines.documents import Checked
from backend.pipelines.services import PipelineError
from runtime.client.pipeline_tests import given_rows
from runtime.client.preview import DEFAULT_ROWS, Frame, Given, NodeLines, preview_program, preview_spares
from runtime.common import options
from runtime.common.references import ReferenceFormatError, references_in
from runtime.common.secrets import SECRETS_FILE, SecretMissingError, SecretName
from runtime.pipeline import Program
from runtime.pipeline.document import Document

logger = logging.getLogger(__name__)
#: a child that is ready for the next preview or test of this process
spares: Final = preview_spares(confinement=settings.TIDEMARK_PREVIEW_CONFINEMENT)

MAX_PREVIEWS: Final = 2
"""Users whose previews run at a time in this process: each child is a Python process with the engine."""
MAX_OF_USER: Final = 2
"""Children of one user in this process: that of the last preview, and one that is being ended."""
KEPT_S: Final = 600
BEAT_MS: Final = 5_000
"""Life of the beat. Shorter: a preview of a busy process looks lost; longer: users wait for one that is."""
LOOK_S: Final = 0.4
"""Interval of the beat, and of looking whether another process has stopped the preview."""
PAUSE_S: Final = 0.05
"""Between two writes of the document. Shorter: a port at a time is written, each with all others; longer: rows are
shown later."""
PAUSE_SHARE: Final = 2.0
"""Pause after a write, in times of what it took: most of the time is left to the child and to requests."""


class PreviewsBusyError(PipelineError):
    """Too many previews run in this process."""

    def __init__(self) -> None:
        super().__init__("Too many previews are running; try again in a few seconds.")


class PreviewsAwayError(PipelineError):
    """Redis does not answer, so nobody could see a preview."""

    def __init__(self) -> None:
        super().__init__("Previews cannot be shown at the moment, because Redis does not answer.")


class _Run:
    """One preview."""

    def __init__(
        self,
        preview_id: str,
        user: User,
        program: Program,
        document: dict[str, Any],
        given: Mapping[str, Given],
        secrets: Mapping[SecretName, str] | None,
    ) -> None:
        self.preview_id = preview_id
        self.user_id = user.pk
        self.stopped = threading.Event()
        #: whether it may have a child; guarded by `_lock`
        self.has_begun = False
        self._program = program
        self._document = document
        self._given = given
        self._secrets = secrets
        self._looked_at = 0.0
        #: whether frames have come that are not written
        self._is_behind = False
        self._write_due = 0.0
        self._announcer: Announcer | None = None

    def run(self, rows: int) -> None:
        """Run it to its end; never raises."""
        try:
            with suppress(redis.RedisError, OSError):
                self._announcer = Announcer()
            if not _has_turn(self):
                self.end("stopped", "The preview was stopped.")
                return
            places = self._program.source_map.statements
            preview_program(
                self._program.source,
                [NodeLines(of.node, of.first, of.last) for of in places if of.node is not None],
                self._program.streams,
                self._take,
                rows=rows,
                given=self._given,
                secrets=self._secrets,
                spares=spares,
                is_abandoned=self.is_stopped,
            )
        except Exception:
            logger.exception("preview %s failed", self.preview_id)
            self._end({"state": "failed", "message": "Internal error; the server's log has it."})
        finally:
            if self._announcer is not None:
                with suppress(redis.RedisError, OSError):
                    self._announcer.close()

    def end(self, state: str, message: str) -> None:
        """End it without having run."""
        self._end({"state": state, "message": message})

    def write(self) -> None:
        """Write the document.

        Raises:
            redis.RedisError: it could not be written.
        """
        self._document["version"] += 1
        pipeline = bus.client().pipeline(transaction=False)
        pipeline.set(bus.PREVIEW_BEAT_KEY.format(self.preview_id), 1, px=BEAT_MS)
        pipeline.set(bus.PREVIEW_KEY.format(self.preview_id), json.dumps(self._document), ex=KEPT_S)
        pipeline.execute()

    def _take(self, frame: Frame) -> None:
        if frame["kind"] == "end":
            self._end(frame)
            return
        port = {name: value for name, value in frame.items() if name != "kind"}
        self._document["ports"].setdefault(frame["node"], {})[frame["port"]] = port
        self._is_behind = True
        self._publish_if_due()

    def _end(self, frame: Mapping[str, Any]) -> None:
        self._document["state"] = frame["state"]
        defaults: dict[str, Any] = {
            "node": None,
            "line": None,
            "code_line": None,
            "traceback": "",
            "simulated": None,
            "limited": [],
            "output": "",
        }
        end = defaults | {n: v for n, v in frame.items() if n not in ("kind", "state")}
        place = None if end["line"] is None else self._program.source_map.at(end["line"])
        if place is not None and place.code_line is not None:
            end |= {"node": place.node, "code_line": place.code_line}
        self._document["end"] = end
        self._publish()

    def _publish_if_due(self) -> None:
        # a frame is one of many ports, and each write has all of them
        if self._is_behind and time.monotonic() >= self._write_due:
            self._publish()

    def _publish(self) -> None:
        self._is_behind = False
        began = time.monotonic()
        try:
            self.write()
            if self._announcer is not None:
                self._announcer.announce(f"preview:{self.preview_id}", self._document["version"])
        except (redis.RedisError, OSError) as error:
            logger.warning("preview %s cannot be shown: %s", self.preview_id, error)
        ended = time.monotonic()
        self._write_due = ended + max(PAUSE_S, PAUSE_SHARE * (ended - began))

    def is_stopped(self) -> bool:
        """Return whether somebody has stopped it; to be asked again and again while it waits or runs."""
        self._publish_if_due()
        now = time.monotonic()
        if not self.stopped.is_set() and now - self._looked_at >= LOOK_S:
            self._looked_at = now
            # the last two: of a client that another thread disconnects
            with suppress(redis.RedisError, OSError, ValueError):
                pipeline = bus.client().pipeline(transaction=False)
                pipeline.set(bus.PREVIEW_BEAT_KEY.format(self.preview_id), 1, px=BEAT_MS)
                pipeline.exists(bus.PREVIEW_STOP_KEY.format(self.preview_id))
                if pipeline.execute()[1]:
                    self.stopped.set()
        return self.stopped.is_set()


_lock = threading.Lock()
#: notified when a preview has ended
_ended = threading.Condition(_lock)
#: those of this process
_running: dict[str, _Run] = {}


def start_preview(user: User, checked: Checked, rows: int = DEFAULT_ROWS) -> dict[str, Any]:
    """Start a preview; the user's former one is stopped.

    Args:
        user: who sees it.
        checked: the document; nodes that are unfinished or wrong are left out, with all below them.
        rows: of each source.

    Returns:
        Its document.

    Raises:
        PreviewsBusyError: there are too many.
        PreviewsAwayError: nobody could see it.
    """
    program = compiled(checked.document)
    document: dict[str, Any] = {
        "id": new_id(),
        "owner": user.pk,
        "version": 0,
        "semantic_hash": checked.semantic_hash,
        "state": "running",
        "ports": {},
        "problems": [problem.to_json() for problem in program.problems],
        "end": None,
    }
    samples = checked.document.value["samples"]
    given = given_rows(program, {node: each["rows"] for node, each in samples.items() if each.get("pinned")})
    document["pinned"] = sorted(given)
    secrets, trouble = None, ""
    try:
        secrets = secrets_read(checked.document, program, given)
    except SecretMissingError as error:
        trouble = str(error)
    run = _Run(document["id"], user, program, document, given, secrets)
    with _lock:
        if len({other.user_id for other in _running.values()} - {run.user_id}) >= MAX_PREVIEWS:
            raise PreviewsBusyError
        _running[run.preview_id] = run
    try:
        run.write()
        # in one step: of requests at once, each stops the one before it, and the last one is left
        former = bus.client().set(bus.PREVIEW_OF_KEY.format(user.pk), run.preview_id, ex=KEPT_S, get=True)
        if isinstance(former, str):
            _stop(former)
        # the thread adds ports to its own
        started = {**document, "ports": {}}
        if trouble:
            run.end("failed", trouble)
            _forget(run)
            return started
        threading.Thread(target=_run, args=(run, rows), name=f"preview {run.preview_id}", daemon=True).start()
    except BaseException as error:
        _forget(run)
        if isinstance(error, redis.RedisError):
            raise PreviewsAwayError from error
        raise
    return started


def secrets_read(document: Document, program: Program, given: Collection[str]) -> dict[SecretName, str]:
    """Return the values of secrets that a preview or a test needs: those of the connections that it reads from, and of
    references in its job parameters.

    Args:
        document: the pipeline.
        program: what it was compiled to.
        given: nodes in whose place rows are given.

    Raises:
        SecretMissingError: this process does not know one, or must not hand any out; the message says what to do.
    """
    names = connections_read(document, program, given)
    parameters = document.settings.get("options", {}).get(options.GLOBAL_JOB_PARAMETERS.key, "")
    if names and not settings.TIDEMARK_PREVIEW_CONFINEMENT.has_network:
        listed = ", ".join(sorted(names))
        raise SecretMissingError(
            f"Previews and tests have no network here, so they cannot read what is behind {listed}: give rows in its "
            "place, or set TIDEMARK_PREVIEW_NETWORK=1 for the web processes."
        )
    try:
        named = environment.secret_store().resolve(references_in(parameters))
    except (ReferenceFormatError, environment.EnvironmentProblem) as error:
        raise SecretMissingError(str(error)) from None
    try:
        return named | values_of(names)
    except SecretMissingError as error:
        raise SecretMissingError(
            f"The web process does not know the secrets of {', '.join(sorted(names))}: previews and tests need them in "
            f"{SECRETS_FILE} of the cluster's home ({error})"
        ) from None


def get_preview(preview_id: str, user: User) -> dict[str, Any]:
    """Return the document of a preview of this user.

    Raises:
        PreviewUnknownError: there is none, or it is another user's.
        PreviewsAwayError: Redis does not answer.
    """
    try:
        document = read_preview(preview_id)
    except PreviewUnknownError as error:
        if isinstance(error.__cause__, redis.RedisError):
            # a page that is told that there is none takes the preview for lost
            raise PreviewsAwayError from error
        raise
    if document["owner"] != user.pk:
        raise PreviewUnknownError(preview_id)
    return document


def stop_preview(preview_id: str, user: User) -> None:
    """Stop a preview of this user, wherever it runs; within a second.

    Raises:
        PreviewUnknownError: there is none, or it is another user's.
        PreviewsAwayError: Redis does not answer.
    """
    get_preview(preview_id, user)
    _stop(preview_id)


def _run(run: _Run, rows: int) -> None:
    try:
        run.run(rows)
    finally:
        _forget(run)
        warm_up()


def _has_turn(run: _Run) -> bool:
    """Wait until the user's former previews have ended, but for one that is being ended; False: it was stopped."""
    while not run.is_stopped():
        with _ended:
            if sum(other.has_begun and other.user_id == run.user_id for other in _running.values()) < MAX_OF_USER:
                run.has_begun = True
                return True
            _ended.wait(LOOK_S)
    return False


def _forget(run: _Run) -> None:
    with _ended:
        _running.pop(run.preview_id, None)
        _ended.notify_all()


def warm_up() -> None:
    """Have a child ready for the next preview: its interpreter and the engine take longer to start than it to run."""
    if not settings.TIDEMARK_WARM_PREVIEWS:
        return
    try:
        spares.prepare()
    except OSError as error:
        # the preview itself will tell
        logger.warning("no child can be kept ready for previews: %s", error)


def _stop(preview_id: str) -> None:
    with _lock:
        here = _running.get(preview_id)
    if here is not None:
        here.stopped.set()
        return
    with suppress(redis.RedisError):
        bus.client().set(bus.PREVIEW_STOP_KEY.format(preview_id), 1, ex=KEPT_S)
