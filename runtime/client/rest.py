"""RestClient: Flink's REST routes and Tidemark's own, as the command line needs them. One thread at a time.

Every failure becomes a ClientError of one line. Redirects are not followed: the token is for one server only.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, urlencode, urlsplit

from runtime.client.errors import OUTPUT_HEADING, ClientError
from runtime.client.server import TOKEN_HINT, Server

TIMEOUT_S = 10.0
SUBMIT_TIMEOUT_S = 300.0
"""The server runs the program up to its execute(), for which it may take a minute, and others may be before it."""
#: a lower bound that stays as it is
UNCHANGED = -1
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class ServerUnreachableError(ClientError):
    """Nothing answers at the server's address."""


class RequestRefusedError(ClientError):
    """The server answered with an error.

    Attributes:
        status: HTTP's.
        retry_after_s: when the server wants to be asked again; None: it does not say.
        output: what a program that defines no job has printed.
    """

    def __init__(self, status: int, message: str, retry_after_s: float | None = None, output: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s
        self.output = output


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """Snapshot that a job is to start from."""

    path: str
    allow_non_restored_state: bool = False
    claim_mode: str = "NO_CLAIM"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None


class _EarlyAnswers:
    """A connection whose server may answer, and close, before it has the whole body: the answer counts."""

    def send(self, data: Any) -> None:
        # getresponse() finds the answer, or fails as the sending has
        with suppress(BrokenPipeError, ConnectionResetError):
            super().send(data)  # type: ignore[misc]


class _Connection(_EarlyAnswers, HTTPConnection):
    pass


class _SecureConnection(_EarlyAnswers, HTTPSConnection):
    pass


class _Http(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(_Connection, req)


class _Https(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(_SecureConnection, req)


class RestClient:
    """Talks to one server.

    Args:
        server: address and token.
        sleep: waits for that many seconds.
        monotonic: seconds.
    """

    def __init__(
        self,
        server: Server,
        sleep: Callable[[float], object] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.server = server
        self._sleep = sleep
        self._monotonic = monotonic
        # a proxy has no business between this machine and itself
        proxies: dict[str, str] | None = {} if urlsplit(server.url).hostname in LOOPBACK else None
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies), _Http, _Https, _NoRedirects)

    # --- Flink's routes -----------------------------------------------------------------------------------------------

    def jobs(self) -> list[dict[str, Any]]:
        """Return `jobs` of /jobs/overview."""
        found: list[dict[str, Any]] = self._call("GET", "/v1/jobs/overview")["jobs"]
        return found

    def upload(self, program: Path) -> str:
        """Upload a file; returns its id.

        Raises:
            ClientError: it cannot be read, or the server refuses it.
        """
        try:
            return self.upload_content(program.name, program.read_bytes())
        except OSError as error:
            raise ClientError(f"{program}: {error.strerror}") from None

    def upload_content(self, file_name: str, content: bytes) -> str:
        """Upload a program under a file's name; returns its id."""
        boundary = uuid.uuid4().hex
        name = file_name.replace('"', "%22").replace("\r", "").replace("\n", "")
        disposition = f'Content-Disposition: form-data; name="jarfile"; filename="{name}"'
        head = f"--{boundary}\r\n{disposition}\r\nContent-Type: application/octet-stream\r\n\r\n"
        body = head.encode() + content + f"\r\n--{boundary}--\r\n".encode()
        answer = self._submit("/v1/jars/upload", body, f"multipart/form-data; boundary={boundary}")
        return str(answer["filename"]).rpartition("/")[2]

    def run(
        self,
        program_id: str,
        args: Sequence[str],
        configuration: Mapping[str, str],
        parallelism: int | None,
        entry: str | None,
        restore: RestoreRequest | None = None,
        warn: Callable[[str], object] = lambda _: None,
        *,
        job_id: str | None = None,
        printed: Callable[[str], object] = lambda _: None,
        requirements: Sequence[str] = (),
    ) -> str:
        """Start an uploaded program; returns the job's id. `requirements` are lines of a requirements file.

        `warn` is told what may surprise its user, `printed` what the program has printed until then. With a `job_id`,
        of 32 hex digits, that is the job's id: sent again, the request does not start another job.
        """
        request = {
            "entryClass": entry,
            "programArgsList": list(args),
            "parallelism": parallelism,
            "flinkConfiguration": dict(configuration),
            "jobId": job_id,
            "pythonRequirements": list(requirements) or None,
        }
        if restore is not None:
            request |= {
                "savepointPath": restore.path,
                "allowNonRestoredState": restore.allow_non_restored_state,
                "claimMode": restore.claim_mode,
            }
        body = json.dumps({key: value for key, value in request.items() if value is not None}).encode()
        answer = self._submit(f"/v1/jars/{quote(program_id, safe='')}/run", body, "application/json")
        printed(str(answer.get("output", "")))
        for warning in answer.get("warnings", ()):
            warn(str(warning))
        return str(answer["jobid"])

    def cancel(self, job_id: str) -> None:
        """Ask for a job to be cancelled; it ends a little later."""
        self._call("PATCH", f"/v1/jobs/{job_id}?mode=cancel")

    def checkpoints(self, job_id: str) -> dict[str, Any]:
        """Return /jobs/:jobid/checkpoints."""
        return self._call("GET", f"/v1/jobs/{job_id}/checkpoints")

    def failures(self, job_id: str) -> dict[str, Any]:
        """Return the job's failures, grouped by their cause."""
        return self._call("GET", f"/api/v1/jobs/{job_id}/failures")

    def timeline(self, job_id: str) -> dict[str, Any]:
        """Return what the job has gone through."""
        return self._call("GET", f"/api/v1/jobs/{job_id}/timeline")

    def checkpoint_gantt(self, job_id: str) -> dict[str, Any]:
        """Return where the time of the job's last checkpoints went."""
        return self._call("GET", f"/api/v1/jobs/{job_id}/checkpoints/gantt")

    def batches(self, job_id: str) -> dict[str, Any]:
        """Return what the last batches of a job in micro-batches have done."""
        return self._call("GET", f"/api/v1/jobs/{job_id}/batches")

    def switch_execution(self, job_id: str, execution: str, key: str) -> dict[str, Any]:
        """Ask for a job to go on in another execution; returns the switch. One key makes one switch."""
        body = json.dumps({"execution": execution, "key": key}).encode()
        return self._submit(f"/api/v1/jobs/{job_id}/switch", body, "application/json")

    def switch_of(self, job_id: str) -> dict[str, Any] | None:
        """Return the newest switch that the job is part of; None: there is none."""
        found: dict[str, Any] | None = self._call("GET", f"/api/v1/jobs/{job_id}/switch")["switch"]
        return found

    def trigger_savepoint(
        self, job_id: str, directory: str | None, format_type: str, *, cancel_job: bool = False
    ) -> str:
        """Ask for a savepoint; returns the request's id."""
        body = {"target-directory": directory, "cancel-job": cancel_job, "formatType": format_type}
        return self._trigger(f"/v1/jobs/{job_id}/savepoints", body)

    def stop(self, job_id: str, directory: str | None, format_type: str, *, drain: bool) -> str:
        """Ask for the job to stop with a savepoint; returns the request's id, to be asked for as a savepoint's."""
        body = {"targetDirectory": directory, "drain": drain, "formatType": format_type}
        return self._trigger(f"/v1/jobs/{job_id}/stop", body)

    def trigger_checkpoint(self, job_id: str, checkpoint_type: str) -> str:
        """Ask for a checkpoint; returns the request's id."""
        return self._trigger(f"/v1/jobs/{job_id}/checkpoints", {"checkpointType": checkpoint_type})

    def dispose_savepoint(self, location: str) -> str:
        """Ask for the deletion of a savepoint or checkpoint; returns the request's id."""
        return self._trigger("/v1/savepoint-disposal", {"savepoint-path": location})

    def savepoint_disposal(self, request_id: str) -> dict[str, Any]:
        """Return /savepoint-disposal/:triggerid."""
        return self._call("GET", f"/v1/savepoint-disposal/{request_id}")

    def rescale(self, job_id: str, parallelism: Mapping[str, int], lower: int | None = None) -> str:
        """Ask for other parallelisms; returns the request's id.

        Args:
            job_id: the job.
            parallelism: by vertex; the upper bound if there is a lower one.
            lower: lower bound of these vertices; None: as it was.
        """
        least = UNCHANGED if lower is None else lower
        bounds = {v: {"parallelism": {"lowerBound": least, "upperBound": n}} for v, n in parallelism.items()}
        answer = self._call("PUT", f"/v1/jobs/{job_id}/resource-requirements", json.dumps(bounds).encode())
        return str(answer["request-id"])

    def _trigger(self, path: str, body: Mapping[str, Any]) -> str:
        # an id of its own: if the answer is lost and the request is sent again, it is the same request
        request = {**body, "triggerId": uuid.uuid4().hex}
        return str(self._call("POST", path, json.dumps(request).encode())["request-id"])

    # --- Tidemark's own -----------------------------------------------------------------------------------------------

    def live(self, job_id: str) -> dict[str, Any]:
        """Return the job's live document."""
        return self._call("GET", f"/api/v1/jobs/{job_id}/live")

    def stacks(self, job_id: str, vertex_id: str) -> dict[str, Any] | None:
        """Return what the subtasks of a vertex were seen to do last; None: nothing was sampled lately."""
        stacks: dict[str, Any] | None = self._call("GET", f"/api/v1/jobs/{job_id}/vertices/{vertex_id}/stacks")[
            "stacks"
        ]
        return stacks

    def sample_stacks(self, job_id: str, vertex_id: str, duration_ms: int) -> None:
        """Have the stacks of a vertex's subtasks sampled; `stacks` has them a moment after that time.

        Args:
            job_id: the job.
            vertex_id: its vertex.
            duration_ms: at most a minute; 0: only the stacks of all threads are wanted.
        """
        body = json.dumps({"duration": duration_ms}).encode()
        self._call("POST", f"/api/v1/jobs/{job_id}/vertices/{vertex_id}/stacks", body)

    def tags(self, job_id: str) -> list[str]:
        """Return the job's tags."""
        found: list[str] = self._call("GET", f"/api/v1/jobs/{job_id}/tags")["tags"]
        return found

    def set_tags(self, job_id: str, tags: Sequence[str]) -> list[str]:
        """Replace the job's tags; return them."""
        body = json.dumps({"tags": list(tags)}).encode()
        found: list[str] = self._call("PUT", f"/api/v1/jobs/{job_id}/tags", body)["tags"]
        return found

    def all_tags(self) -> dict[str, list[str]]:
        """Return the tags of the jobs in the overview that have any, by job."""
        found: dict[str, list[str]] = self._call("GET", "/api/v1/tags")["jobs"]
        return found

    def autoscaler(self, job_id: str) -> dict[str, Any]:
        """Return the job's autoscaler: whether it is on, its decision with the reasons, earlier decisions."""
        return self._call("GET", f"/api/v1/jobs/{job_id}/autoscaler")

    def switch_autoscaler(self, job_id: str, is_on: bool | None) -> dict[str, Any]:
        """Switch the job's autoscaler on or off; None: as the job's configuration says. Return it."""
        body = json.dumps({"enabled": is_on}).encode()
        return self._call("PUT", f"/api/v1/jobs/{job_id}/autoscaler", body)

    def cluster(self) -> dict[str, Any]:
        """Return the cluster's live document."""
        return self._call("GET", "/api/v1/cluster")

    def jobmanagers(self) -> dict[str, Any]:
        """Return the jobmanagers, the leading one first: {"jobmanagers": [...], "redis_answers": bool}."""
        return self._call("GET", "/api/v1/jobmanagers")

    def savepoints(self, job_id: str | None = None) -> list[dict[str, Any]]:
        """Return the savepoints that the cluster has taken, newest first, with who uses them; of one job, or of all."""
        of_job = {} if job_id is None else {"job": job_id}
        found: dict[str, dict[str, Any]] = {}
        while True:
            query = urlencode({**of_job, "offset": len(found)})
            answer = self._call("GET", f"/api/v1/savepoints?{query}")
            known = len(found)
            # one that was taken meanwhile moves the others on: they may come twice
            found |= {savepoint["location"]: savepoint for savepoint in answer["savepoints"]}
            if len(found) >= answer["total"] or len(found) == known:
                return list(found.values())

    def users(self) -> list[dict[str, Any]]:
        """Return all users, by name."""
        found: list[dict[str, Any]] = self._call("GET", "/api/v1/users")["users"]
        return found

    def add_user(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Create a user with name, role and perhaps a password."""
        return self._call("POST", "/api/v1/users", json.dumps(given).encode())

    def change_user(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Change role, password or is_active of a user; return the user."""
        return self._call("PATCH", f"/api/v1/users/{quote(name, safe='')}", json.dumps(given).encode())

    def delete_user(self, name: str) -> None:
        """Delete a user with the tokens."""
        self._call("DELETE", f"/api/v1/users/{quote(name, safe='')}")

    def tokens(self, *, of_all: bool) -> list[dict[str, Any]]:
        """Return one's own tokens, or those of all users, newest first."""
        found: list[dict[str, Any]] = self._call("GET", f"/api/v1/tokens{'?all=1' if of_all else ''}")["tokens"]
        return found

    def make_token(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Make a token; return {"token": its text, "entry"}."""
        return self._call("POST", "/api/v1/tokens", json.dumps(given).encode())

    def revoke_token(self, token_id: int) -> None:
        """Revoke a token."""
        self._call("DELETE", f"/api/v1/tokens/{token_id}")

    def operation(self, job_id: str, request_id: str) -> dict[str, Any]:
        """Return the status of a request: state, and once it is COMPLETED, result."""
        return self._call("GET", f"/api/v1/jobs/{job_id}/operations/{request_id}")

    def log_files(self, job_id: str) -> list[dict[str, Any]]:
        """Return the log files of a job: name, attempt, slot, kind, size, mtime."""
        found: list[dict[str, Any]] = self._call("GET", f"/api/v1/jobs/{job_id}/logs")["files"]
        return found

    def log_text(self, job_id: str, name: str, offset: int, limit: int) -> dict[str, Any]:
        """Return a part of a log file: offset, next_offset, size, text. A negative offset counts from the end."""
        query = urlencode({"offset": offset, "limit": limit})
        return self._call("GET", f"/api/v1/jobs/{job_id}/logs/{quote(name)}?{query}")

    def job_log(self, job_id: str, query: Mapping[str, str | int]) -> dict[str, Any]:
        """Return entries of all logs of a job by time, and where the next request goes on: entries, cursor, follow."""
        return self._call("GET", f"/api/v1/jobs/{job_id}/logs/search?{urlencode(query)}")

    # --- inside -------------------------------------------------------------------------------------------------------

    def _submit(self, path: str, body: bytes, content_type: str) -> dict[str, Any]:
        """Send a POST; a server that is busy, or has had too many of this user, is asked again when it says, within the
        time that a submission has."""
        deadline = self._monotonic() + SUBMIT_TIMEOUT_S
        while True:
            left_s = deadline - self._monotonic()
            try:
                return self._call("POST", path, body, content_type, timeout_s=max(1.0, left_s))
            except RequestRefusedError as refused:
                wait_s = refused.retry_after_s
                if refused.status not in (429, 503) or wait_s is None or self._monotonic() + wait_s >= deadline:
                    raise
            self._sleep(wait_s)

    def _call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_s: float = TIMEOUT_S,
    ) -> dict[str, Any]:
        request = urllib.request.Request(self.server.url + path, data=body, method=method)
        request.add_header("Authorization", f"Bearer {self.server.token}")
        request.add_header("Accept", "application/json")
        if body is not None:
            request.add_header("Content-Type", content_type)
        try:
            with self._opener.open(request, timeout=timeout_s) as response:
                answer = json.loads(response.read() or b"{}")
        except urllib.error.HTTPError as error:
            with error:
                # a server that refuses an upload may close before all of its answer is read
                try:
                    body = error.read()
                except (OSError, HTTPException):
                    body = b""
                message = self._refusal(error.code, body)
                wait_s = _seconds(error.headers.get("Retry-After"))
                raise RequestRefusedError(error.code, message, wait_s, _output(body)) from None
        except (OSError, HTTPException) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
            raise ServerUnreachableError(f"no server answers at {self.server.url}: {text}{self._home_hint()}") from None
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise ClientError(f"{self.server.url} does not answer as a Tidemark server does")
        return answer

    def _refusal(self, status: int, body: bytes) -> str:
        if status == 401:
            return f"{self.server.url} refuses the token: {TOKEN_HINT}"
        texts = _errors(body)
        # a traceback may follow the message's first line; the page shows it
        lines = [line.strip() for text in texts for line in text.splitlines() if line.strip()]
        return lines[0] if lines else f"{self.server.url} answers with HTTP status {status}"

    def _home_hint(self) -> str:
        if self.server.home is None:
            return ""
        return f" (the address is that of {self.server.home}; is `make run` still running, and is this its home?)"


def _errors(body: bytes) -> list[str]:
    """Return the texts of a refusal."""
    try:
        errors = json.loads(body)["errors"]
        return [error["message"] if isinstance(error, dict) else str(error) for error in errors]
    except (ValueError, KeyError, TypeError):
        return []


def _output(body: bytes) -> str:
    """Return the output of a refused program."""
    heading = f"{OUTPUT_HEADING}\n"
    return next((text.removeprefix(heading) for text in _errors(body) if text.startswith(heading)), "")


def _seconds(text: str | None) -> float | None:
    """Parse the seconds of Retry-After; its other form, a date, is by the server's clock and says nothing here."""
    return float(text) if text is not None and text.isdecimal() else None
