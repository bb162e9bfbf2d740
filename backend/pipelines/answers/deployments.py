"""Deployments, and what becomes of the state of the job that one replaces."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict


class DeploymentListed(TypedDict):
    id: str
    version: int
    semantic_hash: str
    """Of that version: a draft with the same one would change nothing."""
    state: str
    """COMPILED, CHECKED, STOPPING, SUBMITTED, RUNNING; ROLLING_BACK, ROLLED_BACK; FAILED."""
    job_id: str | None
    job_state: str | None
    """null: there is no job yet."""
    created_at: int


class StateVerdict(TypedDict):
    """A named state of an operator."""

    name: str
    fate: Literal["kept", "empty", "unread", "lost", "refused", "unknown"]
    written: str | None
    """Kind and type in the snapshot; null: it is not in it."""
    expected: str | None
    """Kind and type in the new graph; null: the operator does not declare it."""


class OperatorVerdict(TypedDict):
    operator_id: str
    uid: str
    name: str
    verdict: Literal["kept", "rescaled", "new", "lost", "refused", "unknown"]
    why: str
    """Of refused."""
    before: int | None
    """Parallelism in the snapshot; null: it is not in it."""
    after: int | None
    """Parallelism in the new graph; null: it is not in it."""
    size_bytes: int
    has_state: bool
    states: NotRequired[list[StateVerdict]]
    """As far as they are named; the user functions' own only once a snapshot has them. Missing in reports of earlier
    versions."""


class Report(TypedDict):
    """Says what happens to the state of the running job, or of the snapshot that was chosen."""

    operators: list[OperatorVerdict]
    refusal: str
    """Why the graph as a whole cannot be restored; empty: it can."""
    is_restorable: bool
    loses_state: bool


class DeploymentAnswer(DeploymentListed):
    state_times: dict[str, int]
    message: str
    """Why it failed or was rolled back."""
    previous: str | None
    """Id of the deployment whose job it replaces."""
    keeps_state: bool
    allows_loss: bool
    savepoint: str | None
    """Location of the savepoint of the job that it replaces, which a rollback uses; where nothing was replaced, that of
    the snapshot that the job begins with."""
    starts_from: str | None
    """Location of the snapshot that was chosen to begin with; null: none was."""
    report: Report | None
    operators: dict[str, str]
    """Operator id → node."""
    created_by: str | None


class DeploymentsAnswer(TypedDict):
    deployments: list[DeploymentAnswer]
    """The newest 100, newest first, and the one that runs if it is older."""


class NewDeployment(TypedDict):
    version: int
    keeps_state: NotRequired[bool]
    """Whether the job goes on from `location`, or else from the savepoint of the one that it replaces; default true."""
    allows_loss: NotRequired[bool]
    """Whether state of operators that the version does not have may be left behind."""
    location: NotRequired[str]
    """A snapshot to start from. A job that runs is replaced all the same: it is stopped with a savepoint, from which it
    comes back if the new one fails."""
    replaces: NotRequired[str | None]
    """Id of the deployment whose job is to be replaced, null: none runs. If it is another one, the answer is a 409 with
    the code other_runs. Missing: whatever runs is replaced."""


class CompatibilityRequest(TypedDict):
    version: int
    location: NotRequired[str]
    """The snapshot whose state is looked at; missing: the running job's latest checkpoint."""


class CompatibilityAnswer(TypedDict):
    running: DeploymentListed | None
    report: Report | None
    """null: nothing runs, or it has no snapshot yet, and no other was named."""
    nodes: dict[str, str]
    """Operator id → node, of the version."""
    warnings: list[str]


class PipelineRestorePoint(TypedDict):
    """A snapshot of a job of the pipeline."""

    kind: Literal["checkpoint", "savepoint", "start"]
    """start: the snapshot that the job itself was started from."""
    location: str
    checkpoint_id: int | None
    timestamp: int
    size: int | None
    deleted_by: list[Literal["stop", "cancel"]]
    """Endings of the job that delete it: stop with savepoint, which a deployment does, and cancel."""
    job_id: str
    job_state: str
    version: int
    """Of the pipeline, that the job was made of."""


class PipelineRestorePoints(TypedDict):
    """Snapshots from which a version can be started, newest first; some may be deleted."""

    points: list[PipelineRestorePoint]


class StreamOutput(TypedDict):
    operator: str
    """Operator id."""
    side_output: str
    """Id of the side output; empty: the main output."""


class JobOrigin(TypedDict):
    drawn: JobPipeline | None
    """null: the job does not belong to a pipeline."""


class JobPipeline(TypedDict):
    pipeline: str
    name: str
    version: int
    deployment: str
    operators: dict[str, str]
    """Operator id → node."""
    outputs: dict[str, dict[str, list[StreamOutput]]]
    """Node → output → the operators' outputs that its stream is made of, several behind a union. Empty: the deployment
    was made by an earlier release."""
