"""Types of the routes of pipelines, for the contract with clients. Times are epoch ms."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from backend.accounts.answers import ProductError
from backend.dispatcher.answers.jobs import Plan


class VersionListed(TypedDict):
    number: int
    semantic_hash: str
    """Equal for documents that make the same job."""
    message: str
    author: str | None
    created_at: int


class VersionAnswer(VersionListed):
    document: dict[str, Any]


class VersionsAnswer(TypedDict):
    versions: list[VersionListed]
    """Newest first."""


class DraftListed(TypedDict):
    tag: str
    """In quotes: the draft's ETag."""
    base: int
    """Number of the version that it began with."""
    semantic_hash: str
    updated_at: int


class DraftAnswer(DraftListed):
    document: dict[str, Any]


class Editor(TypedDict):
    """Somebody else with a draft."""

    user: str | None
    base: int
    updated_at: int


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
    """Says what happens to the state of the running job."""

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
    """Location of the snapshot that the job begins with, and that a rollback uses."""
    report: Report | None
    operators: dict[str, str]
    """Operator id → node."""
    created_by: str | None


class DeploymentsAnswer(TypedDict):
    deployments: list[DeploymentAnswer]
    """Newest first."""


class NewDeployment(TypedDict):
    version: int
    keeps_state: NotRequired[bool]
    """Whether the job goes on from the savepoint of the one that it replaces; default true."""
    allows_loss: NotRequired[bool]
    """Whether state of operators that the version does not have may be left behind."""
    location: NotRequired[str]
    """A snapshot to start from where no job runs."""


class CompatibilityRequest(TypedDict):
    version: int


class CompatibilityAnswer(TypedDict):
    running: DeploymentListed | None
    report: Report | None
    """null: nothing runs, or it has no snapshot yet."""
    nodes: dict[str, str]
    """Operator id → node, of the version."""
    warnings: list[str]


class JobPipeline(TypedDict):
    pipeline: str
    name: str
    version: int
    deployment: str
    operators: dict[str, str]
    """Operator id → node."""


class DocumentBody(TypedDict):
    document: dict[str, Any]


class Place(TypedDict):
    node: str
    field: str


class Fix(TypedDict):
    title: str
    patch: list[dict[str, Any]]
    """RFC 6902, on the document."""


class Problem(TypedDict):
    id: str
    node: str | None
    port: str | None
    field: str | None
    """JSON pointer below the node."""
    span: list[int] | None
    """Offsets in the field's text, from and to."""
    severity: Literal["error", "incomplete", "warning", "info"]
    code: str
    message: str
    hint: str
    fixes: list[Fix]
    related: list[Place]


class Column(TypedDict):
    name: str
    type: str
    dtype: str
    """Of Polars."""


class Facts(TypedDict):
    """Describes the stream that leaves a port."""

    columns: list[Column] | None
    """null: Python objects."""
    changelog: Literal["append", "retract"]
    unique_key: list[str] | None
    event_time: bool
    watermarks: bool
    time_column: str | None
    bounded: bool
    origin: dict[str, list[str]]
    """Column → [node, column] that it comes from."""


class NodePort(TypedDict):
    name: str
    label: str
    many: bool
    help: str
    takes_changelogs: bool
    """Of an input: whether it takes streams whose rows take earlier ones back."""
    changelog_option: str
    """What to set so that an input which does not take them does; "" = nothing."""


class NodePorts(TypedDict):
    inputs: list[NodePort]
    outputs: list[NodePort]


class ValidationAnswer(TypedDict):
    semantic_hash: str
    is_deployable: bool
    problems: list[Problem]
    facts: dict[str, dict[str, Facts | None]]
    """Node → output port → facts; null: not known yet."""
    ports: dict[str, NodePorts]
    labels: dict[str, str]
    """Node → one line of what it does, from its parameters; "" if its type has none."""
    inactive: list[str]
    """Nodes that are disabled, or get nothing because nodes above them are."""


class ProgramLines(TypedDict):
    node: str | None
    """null: the pipeline's shared code."""
    first: int
    last: int
    code_line: int | None
    """Line of the node's own Python that `first` is; null: the lines are generated."""


class ProgramAnswer(TypedDict):
    source: str
    lines: list[ProgramLines]
    is_deployable: bool
    problems: list[Problem]
    semantic_hash: str


class PreviewRequest(TypedDict):
    document: dict[str, Any]
    rows: NotRequired[int]
    """Of each source, up to 100,000; default 10,000."""


class PreviewPort(TypedDict):
    node: str
    port: str
    """An output, or "in" of a sink."""
    rows: int
    """That have passed."""
    sample: list[Any]
    """The first 150 of them, and 50 of the others; "$kind" is there in rows that are not inserted."""
    times: list[int | None]
    """Event time of each row of the sample."""
    watermarks: list[int | None]
    """That had come before each row of the sample."""
    columns: list[list[str]] | None
    """[name, type]; null: Python objects."""
    watermark: int | None


class PreviewEnd(TypedDict):
    message: str
    node: str | None
    """At which it failed, if that is known."""
    line: int | None
    """Of the generated program."""
    code_line: int | None
    """Of the node's own Python, or of the pipeline's shared code if `node` is null; null: the line is generated."""
    traceback: str
    simulated: bool | None
    """Whether time was simulated, because no source talks to the outside."""
    limited: list[str]
    """Nodes whose sources were ended before their own end, so that open windows fired."""
    output: str
    """What the program has printed, its end."""


class PreviewAnswer(TypedDict):
    id: str
    version: int
    """Grows with every change."""
    semantic_hash: str
    """Of the document."""
    state: Literal["running", "finished", "failed", "stopped", "timed out", "lost"]
    """lost: the process that ran it is gone."""
    ports: dict[str, dict[str, PreviewPort]]
    """Node → port."""
    pinned: list[str]
    """Sources in whose place the document's samples are read."""
    problems: list[Problem]
    """Of the document; nodes that they block, and all below, are left out."""
    end: PreviewEnd | None


class TestsRequest(TypedDict):
    document: dict[str, Any]
    only: NotRequired[list[str]]
    """Names of tests; default: all."""


class TestRow(TypedDict):
    state: Literal["same", "missing", "unexpected"]
    row: Any
    """As it was expected; an unexpected one as it came."""


class TestPlace(TypedDict):
    node: str
    port: str
    rows: list[TestRow]


class TestResult(TypedDict):
    name: str
    passed: bool
    message: str
    """Why it could not be judged."""
    node: str | None
    """At which it failed, if that is known."""
    places: list[TestPlace]
    output: str
    """What the program has printed, its end."""


class TestsAnswer(TypedDict):
    results: list[TestResult]


class DraftPlanAnswer(TypedDict):
    plan: Plan | None
    """null: there is none, see `message` and `problems`."""
    nodes: dict[str, list[str]]
    """Job vertex → nodes of the pipeline that it runs, first to last."""
    warnings: list[str]
    message: str
    """Why the program defines no job."""
    problems: list[Problem]


class ReadSchemaRequest(TypedDict):
    document: dict[str, Any]
    node: str


class ReadSchemaAnswer(TypedDict):
    """The columns of what a node reads rows of."""

    origin: str
    """What was looked at: a file, or a table of a connection."""
    field: str
    """JSON pointer, below the node, of the parameter that declares the columns."""
    row: str
    columns: list[list[str]]
    """[name, type] of each."""
    fingerprint: str
    read_at: int
    """Milliseconds since the epoch."""


class RenameRequest(TypedDict):
    document: dict[str, Any]
    node: str
    port: str
    column: str
    to: str


class RenameAnswer(TypedDict):
    patch: list[dict[str, Any]]
    """RFC 6902, of the document."""
    nodes: list[str]
    """That it changes, the one that names the column first."""
    by_hand: list[str]
    """Nodes below with Python that may use the old name."""


class Template(TypedDict):
    id: str
    name: str
    description: list[str]
    """Its story, in lines."""
    document: dict[str, Any]


class TemplatesAnswer(TypedDict):
    templates: list[Template]


class NodeExample(TypedDict):
    title: str
    params: dict[str, Any]


class NodeType(TypedDict):
    type: str
    version: int
    title: str
    summary: str
    icon: str
    category: str
    keywords: list[str]
    docs: str
    schema: dict[str, Any]
    """JSON Schema of its parameters, with hints for the form."""
    ports: NodePorts
    examples: list[NodeExample]
    is_parallel: bool
    is_sink: bool
    reads_schema: bool
    """Whether its columns can be read from what it reads: files, or a table."""


class BrokenNodeType(TypedDict):
    name: str
    traceback: str


class SqlFunction(TypedDict):
    """A function of SQL expressions."""

    name: str
    detail: str
    """What it takes and gives: "(x: number) → DOUBLE"."""
    is_aggregate: bool


class CatalogAnswer(TypedDict):
    types: list[NodeType]
    broken: list[BrokenNodeType]
    functions: list[SqlFunction]
    etag: str


class PipelineListed(TypedDict):
    id: str
    name: str
    owner: str | None
    tags: list[str]
    created_at: int
    updated_at: int
    archived_at: int | None
    head: VersionListed
    draft: DraftListed | None
    """The user's own."""
    deployment: DeploymentListed | None
    """The newest one."""


class PipelineAnswer(PipelineListed):
    editors: list[Editor]


class PipelinesAnswer(TypedDict):
    pipelines: list[PipelineListed]
    """Those changed last first, at most 500."""


class PipelinesQuery(TypedDict, total=False):
    archived: Literal["true", "false"]
    text: str
    """In the name, whatever the case."""
    tag: str


class NewPipeline(TypedDict):
    document: dict[str, Any]
    message: NotRequired[str]
    tags: NotRequired[list[str]]


class PipelineChange(TypedDict):
    tags: NotRequired[list[str]]
    archived: NotRequired[bool]


class NewVersion(TypedDict):
    document: dict[str, Any]
    message: NotRequired[str]


class RestoreVersion(TypedDict):
    version: int


class NewDraft(TypedDict):
    document: dict[str, Any]
    base: int


class ImportedPipeline(TypedDict):
    pipeline: PipelineAnswer
    stripped: list[str]
    """JSON pointers of URLs that had a user or a password, which were left out."""


class ExportQuery(TypedDict, total=False):
    format: Literal["json", "python"]
    version: int
    """Default: the head."""


class Export(TypedDict):
    file_name: str
    text: str
    stripped: list[str]
    """JSON pointers of URLs that had a user or a password, which were left out."""


class DiffQuery(TypedDict, total=False):
    before: int
    """Number of a version; default: the one before `after`."""
    after: int
    """Default: the head."""


class ChangedValue(TypedDict):
    pointer: str
    before: Any
    after: Any


class ChangedItem(TypedDict):
    id: str
    name: str
    changes: list[ChangedValue]


class ChangedEdges(TypedDict):
    added: list[str]
    removed: list[str]
    changed: list[ChangedItem]


class ChangedNodes(ChangedEdges):
    moved: list[str]
    """Nodes of which the position differs."""


class Diff(TypedDict):
    before: int
    after: int
    nodes: ChangedNodes
    edges: ChangedEdges
    settings: list[ChangedValue]
    """Of all that belongs to no node, no edge and no layout."""


class PipelineErrors(TypedDict):
    """Every error of a route of pipelines."""

    errors: list[ProductError]
    problems: NotRequired[list[Problem]]
    """What keeps a version from being deployed."""
    report: NotRequired[Report]
    """Why the state of the running job is in the way of a deployment."""
    current: NotRequired[dict[str, Any] | None]
    """With 412: what the client has not seen, a draft (null: it is gone) or a version, with its document."""


class ConnectionSecret(TypedDict):
    key: str
    variable: str
    """Of the jobmanager's environment, which may hold the value."""
    is_known: bool
    """Whether this web process knows a value, so that the connection can be tested here."""


class ConnectionTest(TypedDict):
    ok: bool
    message: str


class ConnectionAnswer(TypedDict):
    name: str
    kind: Literal["postgres", "redis"]
    options: dict[str, str]
    secrets: list[ConnectionSecret]
    updated_at: int
    tested_at: int | None
    test: ConnectionTest | None
    """Result of the last test."""


class ConnectionsAnswer(TypedDict):
    connections: list[ConnectionAnswer]


class ConnectionChange(TypedDict):
    kind: Literal["postgres", "redis"]
    options: NotRequired[dict[str, str]]


class DescribeQuery(TypedDict, total=False):
    name: str
    """A table; without it, those that there are."""


class Description(TypedDict):
    """Lists the tables or streams behind a connection, or gives the row type of one of them."""

    names: list[str]
    row: str | None
    columns: list[list[str]]
    """[name, type] of each."""
