"""Preview: runs a program over the first rows of its sources in a child process, and tells what flows where.

Nothing that the program does is kept: its sinks are replaced, and so is time, where nothing outside takes part. The
child has limits of rows, time and memory; it and all that it has started end with the preview, or with this process.
Blocking; any thread may call. The child's side is `runtime.client.preview_child`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from runtime.client.children import AnswerTooLargeError, ChildAbandonedError, TooManyProcessesError
from runtime.client.confinement import USUAL, Confinement
from runtime.client.spare_children import IDLE_S, Prepared, SpareChildren
from runtime.common.secrets import SecretName
from runtime.core.redaction import Redaction

MAX_ROWS: Final = 100_000
DEFAULT_ROWS: Final = 10_000
"""Of each source."""
WALL_S: Final = 30.0
CPU_S: Final = 20
MEMORY_BYTES: Final = 4 << 30
"""Address space, of which Arrow and Polars reserve more than 1 GiB; about half of it can be used."""
MAX_PROCESSES: Final = 32
"""That the program may have at a time, threads not counted: a preview has no need of any."""
START_S: Final = 10.0
"""Further time for the start of the interpreter and the imports, before the program's own time begins."""

MODULE: Final = "runtime.client.preview_child"
PREFIX: Final = "tidemark-preview-"
Frame = dict[str, Any]
"""{"kind": "port", "node", "port", "rows", "sample", "times", "watermarks", "columns", "watermark"}, or {"kind": "end",
"state": "finished", "failed", "stopped" or "timed out", "message", "node", "line", "traceback", "simulated", "limited",
"output"}. Event times and the watermarks before them are in ms, null where there are none, one for each row of the
sample."""


def preview_spares(idle_s: float = IDLE_S, confinement: Confinement = USUAL) -> SpareChildren:
    """Return where a process keeps a child ready for its next preview; to be closed.

    Args:
        idle_s: after so long without a preview, the child is ended.
        confinement: what of this machine previews may see.
    """
    return SpareChildren(MODULE, PREFIX, idle_s, confinement)


@dataclass(frozen=True, slots=True)
class NodeLines:
    """Lines of the program that a node has made, from 1, the last one included."""

    node: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Given:
    """Rows and watermarks in place of what a node makes.

    Attributes:
        items: [row, event time in ms or null], or ["watermark", ms].
        time_column: column of the rows that holds their event times, if one is known.
    """

    items: Sequence[Sequence[Any]]
    time_column: str | None = None


def preview_program(
    source: str,
    lines: Sequence[NodeLines],
    streams: Mapping[tuple[str, str], str],
    on_frame: Callable[[Frame], None],
    *,
    rows: int = DEFAULT_ROWS,
    wall_s: float = WALL_S,
    cpu_s: int = CPU_S,
    memory_bytes: int = MEMORY_BYTES,
    given: Mapping[str, Given] | None = None,
    whole: int | None = None,
    secrets: Mapping[SecretName, str] | None = None,
    spares: SpareChildren | None = None,
    is_abandoned: Callable[[], bool] = lambda: False,
) -> None:
    """Run a program as a preview.

    Args:
        source: its text.
        lines: which of its lines belong to which node.
        streams: (node, output port) → name of the program's variable that holds the stream.
        on_frame: takes every frame as it comes, in the calling thread; the last one is of kind "end". Frames of a port
            replace those before.
        rows: of each source, 1..100,000.
        wall_s: after so long it is stopped.
        cpu_s: CPU time that it may use.
        memory_bytes: limit of its address space.
        given: node → what is read in place of what leaves its first output.
        whole: rows that every port shows, in place of a sample; the first ones, if there are more.
        secrets: values for the program's references; what the frames tell is without them.
        spares: where a child comes from that has started already.
        is_abandoned: asked while it runs; True stops it.
    """
    usual = replace(USUAL, has_network=True)
    prepared = Prepared.start(MODULE, PREFIX, usual) if spares is None else spares.take()
    directory = prepared.child.directory
    redaction = Redaction(secrets or {})
    frames = _Frames(on_frame, redaction)
    try:
        program = directory / "pipeline.py"
        request = {
            "program": str(program),
            "lines": [[of.node, of.first, of.last] for of in lines],
            "streams": [[node, port, variable] for (node, port), variable in streams.items()],
            "rows": max(1, min(rows, MAX_ROWS)),
            "wall_s": wall_s,
            "cpu_s": cpu_s,
            "memory_bytes": memory_bytes,
        }
        if whole is not None:
            request["whole"] = whole
        if secrets:
            # over stdin: nothing of the machine keeps them
            request["secrets"] = [[*name, value] for name, value in secrets.items()]
        program.write_text(source, encoding="utf-8")
        if given:
            # a file, as the child may not read its stdin yet, and this process must not wait for it
            asked = {node: {"items": each.items, "time_column": each.time_column} for node, each in given.items()}
            (directory / "given.json").write_text(json.dumps(asked), encoding="utf-8")
            request["given_in"] = str(directory / "given.json")
    except BaseException:
        prepared.end()
        raise
    try:
        result = prepared.child.run(
            json.dumps(request),
            wall_s + START_S,
            is_abandoned=is_abandoned,
            on_answer=frames.take,
            max_processes=MAX_PROCESSES,
        )
    except ChildAbandonedError:
        on_frame(_end("stopped", "The preview was stopped."))
        return
    except AnswerTooLargeError:
        on_frame(_end("failed", "The preview produced more output than can be shown."))
        return
    except TooManyProcessesError as error:
        on_frame(_end("failed", f"The preview was ended: it has started more than {error.limit} processes."))
        return
    finally:
        prepared.clean_up()
    if frames.end is not None:
        on_frame({**frames.end, "output": redaction(result.output)})
    elif result.timed_out:
        on_frame(_end("timed out", f"The preview was stopped after {wall_s:g} s.", redaction(result.output)))
    else:
        on_frame(_end("failed", _how(result.exit_code, cpu_s), redaction(result.output)))


class _Frames:
    """Takes the lines of the answer apart."""

    def __init__(self, on_frame: Callable[[Frame], None], redaction: Redaction) -> None:
        self._on_frame = on_frame
        self._redaction = redaction
        self._rest = b""
        self.end: Frame | None = None

    def take(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            try:
                frame = json.loads(line)
            except ValueError:
                # whatever the program has written to a descriptor that it has no business with
                continue
            if not isinstance(frame, dict) or self.end is not None:
                continue
            for part in ("sample", "message", "traceback"):
                if part in frame:
                    frame[part] = self._redaction.of_json(frame[part])
            if frame.get("kind") == "end":
                self.end = frame
            elif frame.get("kind") == "port":
                self._on_frame(frame)


def _end(state: str, message: str, output: str = "") -> Frame:
    return {
        "kind": "end",
        "state": state,
        "message": message,
        "node": None,
        "line": None,
        "traceback": "",
        "simulated": None,
        "limited": [],
        "output": output,
    }


def _how(exit_code: int, cpu_s: int) -> str:
    if -exit_code in (9, 24):
        return f"The preview was ended: it exceeded its {cpu_s} s of CPU time, or its memory."
    return f"The preview ended unexpectedly, with exit code {exit_code}."
