"""NodeType: what a kind of node is: its form, its ports, what it makes of the facts above it, and the code it becomes.

Everybody can write one: see `docs/pipelines.md`. A type is a plain class without state; it runs where documents are
validated, so it must not read files, connect, or run what a document holds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from runtime.common.typeinfo import BasicTypeInfo, RowTypeInfo, SqlTimeTypeInfo, TypeInformation, parse_type
from runtime.pipeline.emit import Expr, Variable
from runtime.pipeline.facts import StreamFacts
from runtime.pipeline.json_schema import with_defaults
from runtime.pipeline.problems import Code, NodeProblem, Problem, unknown_column


@dataclass(frozen=True, slots=True)
class Port:
    """A place where an edge begins or ends.

    Args:
        name: unique among the node's inputs, or outputs.
        label: for people; "" = the name.
        many: an input that takes any number of edges, at least one.
        help: one sentence.
        takes_changelogs: whether an input takes streams whose rows take earlier ones back. The page refuses such a
            connection where it is False; `infer` has to refuse it too (`NodeInput.needs_appends`).
        changelog_option: what to set so that an input that refuses them takes them; "" = nothing helps.
    """

    name: str
    label: str = ""
    many: bool = False
    help: str = ""
    takes_changelogs: bool = True
    changelog_option: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the port for the page."""
        return {
            "name": self.name,
            "label": self.label or self.name,
            "many": self.many,
            "help": self.help,
            "takes_changelogs": self.takes_changelogs,
            "changelog_option": self.changelog_option,
        }


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of a node."""

    inputs: tuple[Port, ...] = ()
    outputs: tuple[Port, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the ports for the page."""
        return {
            "inputs": [port.to_json() for port in self.inputs],
            "outputs": [port.to_json() for port in self.outputs],
        }


IN = Port("in")
APPENDS = Port("in", takes_changelogs=False)
"""The input of a node that takes new rows only."""
OUT = Port("out")


@dataclass(frozen=True, slots=True)
class Example:
    """Parameters to begin with, and an input on which they make sense; for documentation and for checks."""

    title: str
    params: Mapping[str, Any]
    rows: str = 'row<"auction": long, "bidder": long, "price": long, "channel": string, "date_time": sql_timestamp>'
    """Type of the records at every input."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Type of the records at some inputs, where it is another one."""


@dataclass(frozen=True, slots=True)
class OutsideFiles:
    """Files that a node reads rows of; their columns can be looked up in them.

    Attributes:
        paths: files, directories and patterns.
        format: {"kind": "parquet" | "csv" | "ndjson", …}: see `runtime.connectors.formats.found_columns`.
        field: JSON pointer, below the node, of the parameter that declares the columns.
    """

    paths: tuple[str, ...]
    format: Mapping[str, Any]
    field: str = "/params/type"


@dataclass(frozen=True, slots=True)
class OutsideTable:
    """A table that a node reads rows of; the connection knows its columns."""

    connection: str
    table: str
    field: str = "/params/type"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Holds what a node can know of the pipeline around it.

    Attributes:
        types: declared by the pipeline, by name.
        faulty_types: names of types that the pipeline declares, but not rightly.
        code: the pipeline's shared Python.
        is_checkpointed: whether checkpoints are taken.
        in_micro_batches: whether the pipeline is executed batch by batch.
    """

    types: Mapping[str, RowTypeInfo] = field(default_factory=dict)
    faulty_types: frozenset[str] = frozenset()
    code: str = ""
    is_checkpointed: bool = False
    in_micro_batches: bool = False


@dataclass(frozen=True)
class NodeInput:
    """A node as its type sees it: parameters complete with defaults, and facts of every input.

    Attributes:
        node_id: of the node.
        params: fit the type's schema.
        inputs: by port, the facts of each edge.
        row: type of the rows as it was read from the outside; None = it was not.
        around: what the pipeline has beside the node.
    """

    node_id: str
    params: Mapping[str, Any]
    inputs: Mapping[str, tuple[StreamFacts, ...]]
    row: str | None = None
    around: Surroundings = field(default_factory=Surroundings)
    found: list[Problem] = field(default_factory=list, compare=False)

    def input(self, port: str = "in") -> StreamFacts:
        """Return the facts of the only edge into a port."""
        return self.inputs[port][0]

    def rows(self, port: str = "in") -> TypeInformation:
        """Return the type of an input's records.

        Raises:
            NodeProblem: they are Python objects.
        """
        row = self.input(port).row
        if row is None:
            message = "the records are Python objects: their columns are not known"
            hint = "Give the node above an output type."
            raise NodeProblem(Problem(Code.NO_COLUMNS, message, port=port, hint=hint))
        return row

    def named_rows(self, port: str = "in") -> RowTypeInfo:
        """Return the type of an input's rows.

        Raises:
            NodeProblem: they are no rows with named columns.
        """
        row = self.rows(port)
        if not isinstance(row, RowTypeInfo) or not row.is_named:
            message = f"rows with named columns are needed, not {row}"
            raise NodeProblem(Problem(Code.NO_COLUMNS, message, port=port, hint="Put a Select node before it."))
        return row

    def report(self, problem: Problem) -> None:
        """Add a problem beside which the outputs are known all the same."""
        self.found.append(problem)

    def needs_appends(self, *ports: str) -> None:
        """Refuse changelogs.

        Raises:
            NodeProblem: an input is one.
        """
        for port in ports or ("in",):
            if any(facts.changelog == "retract" for facts in self.inputs[port]):
                message = "takes new rows only, and this stream takes rows back"
                hint = "Put it behind a window, or before the node that makes the changelog."
                raise NodeProblem(Problem(Code.NEEDS_APPENDS, message, port=port, hint=hint))

    def needs_watermarks(self, *ports: str) -> None:
        """Report inputs without event time or watermarks: what waits for them would wait for ever."""
        for port in ports or ("in",):
            for facts in self.inputs[port]:
                if not facts.event_time:
                    self.report(Problem(Code.NO_EVENT_TIME, "the records have no event time", port=port))
                elif not facts.watermarks:
                    message = "the stream has no watermarks: event time would stand still"
                    self.report(Problem(Code.NO_WATERMARKS, message, port=port))

    def keys(self, param: str = "keys", port: str = "in") -> list[str]:
        """Return the key columns that a parameter names.

        Raises:
            NodeProblem: there is no such column.
        """
        row = self.named_rows(port)
        for index, name in enumerate(self.params[param]):
            pointer = f"/params/{param}/{index}"
            self.check_column(name, pointer, row)
            type_info = self.input(port).columns[name]
            if not is_key(type_info):
                message = f"rows cannot be keyed by {name!r}: it is of type {type_info}"
                raise NodeProblem(Problem(Code.TYPE_MISMATCH, message, field=pointer))
        return list(self.params[param])

    def check_column(self, name: str, pointer: str, row: RowTypeInfo) -> None:
        """Refuse a column that is not there.

        Raises:
            NodeProblem: it is not.
        """
        if name not in row.field_names:
            raise NodeProblem(unknown_column(name, pointer, row.field_names))

    def declared_type(self, value: Any, pointer: str) -> RowTypeInfo:
        """Return the row type that a parameter declares: columns, or the name of one of the pipeline's types.

        Raises:
            NodeProblem: there is no such type, or no column.
        """
        if isinstance(value, str):
            if value not in self.around.types:
                is_faulty = value in self.around.faulty_types
                message = f"the type {value!r} is not right yet" if is_faulty else f"there is no type {value!r}"
                raise NodeProblem(Problem(Code.BAD_PARAM, message, field=pointer))
            return self.around.types[value]
        if not value:
            raise NodeProblem(Problem(Code.MISSING_PARAM, "needs at least one column", field=pointer))
        names = checked_names([name for name, _ in value], pointer)
        return RowTypeInfo([parse_type(text) for _, text in value], names)


def checked_names(names: Sequence[str], pointer: str) -> list[str]:
    """Return the names of declared columns.

    Args:
        names: of the columns.
        pointer: of the list of columns, each of which begins with its name.

    Raises:
        NodeProblem: a name occurs twice, or is reserved.
    """
    for index, name in enumerate(names):
        if name in names[:index]:
            message = f"two columns are named {name!r}"
            raise NodeProblem(Problem(Code.NAME_TAKEN, message, field=f"{pointer}/{index}/0"))
        if name.startswith("__"):
            message = f"the name {name!r} is reserved: it begins with two underscores"
            raise NodeProblem(Problem(Code.NAME_TAKEN, message, field=f"{pointer}/{index}/0"))
    return list(names)


def is_key(type_info: TypeInformation) -> bool:
    """Return whether rows can be keyed by a column of a type."""
    return isinstance(type_info, BasicTypeInfo | SqlTimeTypeInfo)


class EmitContext(ABC):
    """Writes the code of a node. Every operator goes through `operator`, which names and identifies it."""

    @property
    @abstractmethod
    def node(self) -> NodeInput:
        """Return the node, as `infer` saw it."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Return the node's name, for calls that want it themselves."""

    @property
    @abstractmethod
    def env(self) -> Expr:
        """Return the execution environment, where sources begin."""

    @abstractmethod
    def input(self, port: str = "in") -> Expr:
        """Return the stream at the only edge of an input."""

    @abstractmethod
    def streams(self, port: str) -> list[Expr]:
        """Return the streams at the edges of an input."""

    @abstractmethod
    def output(self, port: str) -> StreamFacts:
        """Return the facts of an output."""

    @abstractmethod
    def operator(self, expression: Expr, part: str = "", is_named: bool = True) -> Expr:
        """Return a call that adds an operator, followed by its uid, name and parallelism.

        Args:
            expression: the call.
            part: "" for the operator that holds the node's state; others are named "node: part", "uid/part".
            is_named: whether it still needs its name; False if the call has given it.
        """

    @abstractmethod
    def assign(self, expression: Expr, suffix: str = "") -> Variable:
        """Add a statement that gives a value a name: the node's, with a suffix; return the name."""

    @abstractmethod
    def run(self, expression: Expr) -> None:
        """Add a statement for its effect."""

    @abstractmethod
    def define(self, lines: Sequence[str], name: str) -> Variable:
        """Add the node's own Python, which defines `name`, before everything else."""


class NodeType(ABC):
    """A kind of node.

    Attributes:
        type: "filter"; of a third party "vendor.name".
        version: of the parameters; `migrate` brings those of earlier versions to it.
        title, summary, icon, docs: for people; docs in Markdown.
        category: of the palette.
        keywords: further words to find it by.
        schema: JSON Schema of the parameters, with "x-widget" for fields of the form.
        examples: the first is what a new node begins with in documentation.
        is_parallel: whether it may run in more than one subtask.
        has_operator: whether parallelism, chaining and slot group are for the document to say; False: its code says.
    """

    type: ClassVar[str]
    version: ClassVar[int] = 1
    title: ClassVar[str]
    summary: ClassVar[str]
    icon: ClassVar[str] = "box"
    category: ClassVar[str]
    keywords: ClassVar[tuple[str, ...]] = ()
    docs: ClassVar[str] = ""
    schema: ClassVar[Mapping[str, Any]]
    examples: ClassVar[tuple[Example, ...]] = ()
    is_parallel: ClassVar[bool] = True
    has_operator: ClassVar[bool] = True
    is_sink: ClassVar[bool] = False

    def ports(self, params: Mapping[str, Any]) -> Ports:
        """Return the ports; params may still be incomplete or wrong."""
        return Ports((IN,), (OUT,))

    @abstractmethod
    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        """Return the facts of each output.

        Raises:
            NodeProblem: nothing can be said.
        """

    @abstractmethod
    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        """Write the node's code; return the stream of each output. Called for nodes without blocking problems only."""

    def label(self, params: Mapping[str, Any]) -> str:
        """Return one line for the box: "price > 100"."""
        return ""

    def renamed(self, params: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> Mapping[str, Any]:
        """Return parameters in which columns of the inputs have other names.

        Args:
            params: fit the schema.
            names: by input, old name → new name.
        """
        return params

    def renames_output(self, params: Mapping[str, Any], port: str, old: str, new: str) -> Mapping[str, Any] | None:
        """Return parameters with which a column of an output has another name; None if they do not name it."""
        return None

    def updates_by_key(self, params: Mapping[str, Any]) -> bool:
        """Return whether rows take the place of earlier ones outside: the changes of a key must come in their order.

        Args:
            params: fit the schema.
        """
        return False

    def outside(self, params: Mapping[str, Any]) -> OutsideFiles | OutsideTable | None:
        """Return where the columns that the node declares can be read from; None: nowhere.

        Args:
            params: complete with defaults, but unchecked.

        Raises:
            Exception: they are not finished.
        """
        return None

    def migrate(self, params: Mapping[str, Any], version: int) -> Mapping[str, Any]:
        """Return the parameters of an earlier version in the present form."""
        return params

    def to_json(self) -> dict[str, Any]:
        """Return the type for the page."""
        return {
            "type": self.type,
            "version": self.version,
            "title": self.title,
            "summary": self.summary,
            "icon": self.icon,
            "category": self.category,
            "keywords": list(self.keywords),
            "docs": self.docs,
            "schema": self.schema,
            "ports": self.ports(with_defaults(self.schema, {})).to_json(),
            "examples": [{"title": example.title, "params": example.params} for example in self.examples],
            "is_parallel": self.is_parallel,
            "has_operator": self.has_operator,
            "is_sink": self.is_sink,
            "reads_schema": type(self).outside is not NodeType.outside,
        }
