"""FakeCluster: the routes that the command line calls, over real HTTP, answering from plain values."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from runtime.client.server import Server

TOKEN = "letmein"
JOB_ID = "ab" * 16
REQUEST_ID = "ef" * 16


def document(state: str = "RUNNING", **fields: Any) -> dict[str, Any]:
    """A live document of one vertex with one subtask."""
    metrics = {
        "records_in": 1200,
        "records_in_per_second": 38.4,
        "records_out": 90,
        "records_out_per_second": 3.0,
        "bytes_out": 2048,
        "busy": 25.0,
        "idle": 975.0,
        "back_pressured": 0,
    }
    subtask = {"index": 0, "slot": 0, "pid": 4711, "host": "here", "taskmanager": "tm-1", "state": state}
    vertex = {
        "id": "cd" * 16,
        "inputs": [],
        "name": "Source: numbers -> Sink: print",
        "parallelism": 1,
        "state": state,
        "is_source": True,
        "is_sink": True,
        "metrics": metrics,
        "subtasks": [subtask],
    }
    base = {
        "id": JOB_ID,
        "name": "three numbers",
        "state": state,
        "attempt": 0,
        "restarts": 0,
        "start_time": 1_700_000_000_000,
        "duration": 65_000,
        "parallelism": 1,
        "waiting_for": "",
        "vertices": [vertex],
        "exceptions": [],
        "freshness": freshness(),
    }
    return base | fields


def freshness(reason: str = "", age_ms: int = 400) -> dict[str, Any]:
    """Age of a document."""
    return {"age_ms": age_ms, "source": "live", "is_stale": bool(reason), "reason": reason}


def overview(jid: str = JOB_ID, name: str = "three numbers", state: str = "RUNNING", start: int = 0) -> dict[str, Any]:
    """An entry of /jobs/overview."""
    tasks = {"total": 1, "running": int(state == "RUNNING")}
    return {"jid": jid, "name": name, "state": state, "start-time": start, "duration": 65_000, "tasks": tasks}


@dataclass
class FakeCluster:
    """Responses of the server, and the requests it received."""

    jobs: list[dict[str, Any]] = field(default_factory=lambda: [overview()])
    documents: list[dict[str, Any]] = field(default_factory=lambda: [document("FINISHED")])
    """Answers of /live one after the other; the last one stays."""
    cluster: dict[str, Any] = field(default_factory=lambda: {"freshness": freshness()})
    """The cluster's live document."""
    jobmanagers: list[dict[str, Any]] = field(default_factory=list)
    """Of /api/v1/jobmanagers."""
    redis_answers: bool = True
    logs: dict[str, str] = field(default_factory=dict)
    #: at the begin of each log
    deleted_bytes: int = 0
    """name (attempt-n/slot-k.kind) → text."""
    job_logs: list[dict[str, Any]] = field(default_factory=list)
    """Answers of searches in all logs one after the other; the last one stays."""
    log_queries: list[dict[str, str]] = field(default_factory=list)
    """What they were asked for."""
    answers: dict[str, tuple[int, dict[str, Any]]] = field(default_factory=dict)
    """method and path → status and body."""
    refused_once: dict[str, tuple[int, dict[str, Any]]] = field(default_factory=dict)
    """The same, for the next call only."""
    operations: list[dict[str, Any]] = field(default_factory=list)
    """Answers about what was asked of a job, one after the other; the last one stays."""
    switches: list[dict[str, Any]] = field(default_factory=list)
    """Answers about the switch of a job, the first one to its request; the last one stays."""
    savepoints: list[dict[str, Any]] = field(default_factory=list)
    """Of /api/v1/savepoints."""
    savepoint_page: int = 200
    """How many of them are in an answer."""
    disposals: list[dict[str, Any]] = field(default_factory=list)
    """Answers of /savepoint-disposal/:triggerid one after the other."""
    checkpoints: dict[str, Any] = field(default_factory=dict)
    """/jobs/:jobid/checkpoints."""
    gantt: dict[str, Any] = field(default_factory=dict)
    """/jobs/:jobid/checkpoints/gantt."""
    batches: dict[str, Any] = field(default_factory=dict)
    """/jobs/:jobid/batches."""
    busy: list[int] = field(default_factory=list)
    """Seconds to come again in; each refuses one submission."""
    busy_status: int = 503
    outages: list[int] = field(default_factory=list)
    """Statuses of the next answers of /live, about operations, switches and disposals; 0: the connection is cut."""
    cancel_outages: list[int] = field(default_factory=list)
    """Statuses of the next answers to cancellations; 0: the connection is cut."""
    before_run: Callable[[], bool] = lambda: True
    """Called by a run request before it is answered; if it says no, the answer is lost."""
    before_upload: Callable[[], object] = lambda: None
    """Called by an upload before it is answered."""
    calls: list[tuple[str, str, Any]] = field(default_factory=list)
    url: str = ""

    @property
    def server(self) -> Server:
        return Server(self.url, TOKEN)

    def answer(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int, dict[str, Any]]:
        """Status and body for a request."""
        if headers["Authorization"] != f"Bearer {TOKEN}":
            return 401, {"errors": ["no token"]}
        parts = urlsplit(path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        sent: Any = json.loads(body) if body and "json" in headers["Content-Type"] else query
        if parts.path == "/v1/jars/upload":
            sent = _uploaded(headers, body)
        self.calls.append((method, parts.path, sent))
        if method == "POST" and parts.path.startswith("/v1/jars/") and self.busy:
            return self.busy_status, {"errors": [f"try again in {self.busy[0]} s"]}
        if f"{method} {parts.path}" in self.refused_once:
            return self.refused_once.pop(f"{method} {parts.path}")
        if self.cancel_outages and method == "PATCH":
            return self.cancel_outages.pop(0), {"errors": ["The database is unavailable at the moment; try again."]}
        waited_for = ("/live", "/operations/", "/savepoint-disposal/", "/switch")
        if self.outages and any(part in parts.path for part in waited_for):
            return self.outages.pop(0), {"errors": ["The database is unavailable at the moment; try again."]}
        if f"{method} {parts.path}" in self.answers:
            return self.answers[f"{method} {parts.path}"]
        match method, parts.path.strip("/").split("/"):
            case "GET", ["api", "v1", "cluster"]:
                return 200, self.cluster
            case "GET", ["api", "v1", "jobmanagers"]:
                return 200, {"jobmanagers": self.jobmanagers, "redis_answers": self.redis_answers}
            case "GET", ["api", "v1", "savepoints"]:
                found = [s for s in self.savepoints if query.get("job") in (None, s["job_id"])]
                begin = int(query.get("offset", "0"))
                return 200, {"savepoints": found[begin : begin + self.savepoint_page], "total": len(found)}
            case "GET", ["v1", "jobs", "overview"]:
                return 200, {"jobs": self.jobs}
            case "POST", ["v1", "jars", "upload"]:
                return 200, {"filename": f"/some/where/{sent['filename']}", "status": "success"}
            case "POST", ["v1", "jars", _, "run"]:
                return 200, {"jobid": sent.get("jobId", JOB_ID)}
            case "POST", ["v1", "jobs", _, "savepoints" | "stop" | "checkpoints"]:
                return 202, {"request-id": REQUEST_ID}
            case "PUT", ["v1", "jobs", _, "resource-requirements"]:
                return 200, {"request-id": REQUEST_ID}
            case "POST", ["v1", "savepoint-disposal"]:
                return 202, {"request-id": REQUEST_ID}
            case "GET", ["v1", "savepoint-disposal", _]:
                return 200, self.disposals.pop(0)
            case "GET", ["api", "v1", "jobs", _, "checkpoints", "gantt"]:
                return 200, self.gantt
            case "GET", ["api", "v1", "jobs", _, "batches"]:
                return 200, self.batches
            case "GET", ["v1", "jobs", _, "checkpoints"]:
                return 200, self.checkpoints
            case "GET", ["api", "v1", "jobs", _, "operations", _]:
                return 200, self.operations.pop(0) if len(self.operations) > 1 else self.operations[0]
            case "POST", ["api", "v1", "jobs", _, "switch"]:
                return 202, self.switches.pop(0)
            case "GET", ["api", "v1", "jobs", _, "switch"]:
                return 200, {"switch": self.switches.pop(0) if len(self.switches) > 1 else self.switches[0]}
            case "PATCH", ["v1", "jobs", _]:
                return 202, {}
            case "GET", ["api", "v1", "jobs", _, "live"]:
                return 200, self.documents.pop(0) if len(self.documents) > 1 else self.documents[0]
            case "GET", ["api", "v1", "jobs", _, "logs"]:
                return 200, {"files": [_log_file(name, text) for name, text in self.logs.items()]}
            case "GET", ["api", "v1", "jobs", _, "logs", "search"]:
                self.log_queries.append(query)
                return 200, self.job_logs.pop(0) if len(self.job_logs) > 1 else self.job_logs[0]
            case "GET", ["api", "v1", "jobs", _, "logs", *name]:
                return 200, self._log_text("/".join(name), int(query["offset"]), int(query["limit"]))
        return 404, {"errors": [f"Not found: {path}"]}

    def _log_text(self, name: str, offset: int, limit: int) -> dict[str, Any]:
        content, begin = self.logs[name].encode(), self.deleted_bytes
        at = max(0, offset - begin)
        if offset < 0:
            # at the begin of a line, as the server has it
            at = max(0, len(content) + offset)
            at = content.find(b"\n", at) + 1 if at else 0
        part = content[at : at + limit]
        fields = {"name": name, "offset": begin + at, "next_offset": begin + at + len(part), "begin": begin}
        return fields | {"size": begin + len(content), "text": part.decode()}

    @contextmanager
    def serving(self) -> Iterator[FakeCluster]:
        """Serve on a free port."""
        cluster = self

        class Handler(BaseHTTPRequestHandler):
            def _handle(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"] or 0))
                status, answer = cluster.answer(self.command, self.path, self.headers, body)
                if self.path.endswith("/upload"):
                    cluster.before_upload()
                if self.path.endswith("/run") and not cluster.before_run():
                    self.close_connection = True
                    return
                if status == 0:
                    self.close_connection = True
                    return
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                if status == cluster.busy_status and cluster.busy:
                    self.send_header("Retry-After", str(cluster.busy.pop(0)))
                if status == 302:
                    self.send_header("Location", "/elsewhere")
                # the client may have been interrupted
                with suppress(BrokenPipeError, ConnectionResetError):
                    self.end_headers()
                    self.wfile.write(content)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _handle  # noqa: N815 (the base class's names)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            self.url = f"http://127.0.0.1:{server.server_port}"
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            try:
                yield self
            finally:
                server.shutdown()
                thread.join()


def _uploaded(headers: Any, body: bytes) -> dict[str, Any]:
    head = f"Content-Type: {headers['Content-Type']}\r\n\r\n".encode()
    message = BytesParser(policy=HTTP).parsebytes(head + body)
    (part,) = message.iter_parts()
    return {
        "field": part.get_param("name", header="content-disposition"),
        "filename": part.get_filename(),
        "content": part.get_content(),
    }


def _log_file(name: str, text: str) -> dict[str, Any]:
    attempt, _, file = name.partition("/")
    slot, kind = file.split(".")[:2]
    number = int(attempt.removeprefix("attempt-"))
    size = len(text.encode())
    return {"name": name, "attempt": number, "slot": int(slot.removeprefix("slot-")), "kind": kind, "size": size}
