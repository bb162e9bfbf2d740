"""Types of the routes of programs, which Flink calls jars."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from backend.contract.schema import Named
from backend.dispatcher.answers.jobs import Plan

ClaimMode = Annotated[Literal["NO_CLAIM", "CLAIM"], Named("ClaimMode")]


class JarEntry(TypedDict):
    name: str
    description: str | None


class JarFile(TypedDict):
    id: str
    name: str
    uploaded: int
    entry: list[JarEntry]
    size: int
    owner: str | None


class JarList(TypedDict):
    address: str
    files: list[JarFile]
    """The newest first."""


class JarUpload(TypedDict):
    """One file, in a field of any name."""

    jarfile: str


class JarUploaded(TypedDict):
    filename: str
    """Its last part is the program's id."""
    status: Literal["success"]


#: the same as `RunRequest`, which takes precedence; Flink's page uses it
ProgramQuery = TypedDict(
    "ProgramQuery",
    {
        "entry-class": str,
        "program-args": str,
        "programArg": str,
        "parallelism": str,
        "jobid": str,
        "savepointPath": str,
        "allowNonRestoredState": str,
        "claimMode": str,
        "restoreMode": str,
    },
    total=False,
)
RunRequest = TypedDict(
    "RunRequest",
    {
        "entryClass": NotRequired[str | None],
        "entry-class": NotRequired[str | None],
        "programArgs": NotRequired[str | None],
        "programArgsList": NotRequired[list[str] | None],
        "parallelism": NotRequired[int | str | None],
        "jobId": NotRequired[str | None],
        "flinkConfiguration": NotRequired[dict[str, str] | None],
        #: lines of a requirements file, not Flink's
        "pythonRequirements": NotRequired[list[str] | None],
        "savepointPath": NotRequired[str | None],
        "allowNonRestoredState": NotRequired[bool | str | None],
        "claimMode": NotRequired[ClaimMode | None],
        "restoreMode": NotRequired[str | None],
    },
)


class PlannedOperator(TypedDict):
    id: str
    uid: str
    name: str
    description: str
    parallelism: int
    vertex: str
    """The job vertex in whose chain it runs."""
    output: str
    """The type of its records; "" if not known."""
    defined_at: str
    """Place in the program, "file:line"; "" if not known."""


class OperatorEdge(TypedDict):
    source: str
    target: str
    ship_strategy: str
    side_output: str
    """Tag of the side output; "" = the main output."""


class OperatorPlan(TypedDict):
    """Describes what the program defines, before its operators are chained."""

    nodes: list[PlannedOperator]
    edges: list[OperatorEdge]
    files: dict[str, str]
    """Text of the files of the program in which operators are defined."""


class PlanAnswer(TypedDict):
    plan: Plan
    operators: OperatorPlan
    warnings: list[str]
    """What the program should do better."""
    output: str
    """The end of its output."""


class RunAnswer(TypedDict):
    jobid: str
    applicationid: str
    warnings: list[str]
    """What the program should do better."""
    output: str
    """The end of its output until the job was started."""
