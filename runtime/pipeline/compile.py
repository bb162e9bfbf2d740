"""Compiles a pipeline: the document becomes a readable Python program, an ordinary artifact.

What is submitted, exported and previewed is this program. The same document always gives the same bytes. Values of the
document appear as literals only; the one exception is Python that the pipeline itself holds, which stands at the top as
it is. Pure. See docs/adr: a pipeline compiles to a program.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runtime.pipeline.catalog import Catalog
from runtime.pipeline.document import Document, Edge, Node
from runtime.pipeline.emit import (
    COMMON,
    Attribute,
    Call,
    Expr,
    Imported,
    Imports,
    Listing,
    Literal,
    Method,
    Statement,
    Variable,
    literal_text,
    plain,
    statement_text,
    texts,
)
from runtime.pipeline.facts import StreamFacts, Unknown
from runtime.pipeline.node_type import EmitContext, NodeInput
from runtime.pipeline.problems import Code, NodeProblem, Problem
from runtime.pipeline.python_code import definitions
from runtime.pipeline.settings import options_of
from runtime.pipeline.source_map import Lines, SourceMap
from runtime.pipeline.validate import Memo, Validation, validate

_MAX_NAME = 40
_RESERVED = frozenset(dir(builtins)) | frozenset(keyword.kwlist) | frozenset(keyword.softkwlist)
_PARTITIONINGS = {"global": "global_"}
_NOT_IN_DOCSTRING = re.compile(r'["\\]')


@dataclass(frozen=True)
class Program:
    """A compiled pipeline.

    Attributes:
        source: text of the program; of the nodes that are finished and right, if not all are.
        source_map: which of its lines belong to which node.
        validation: what is known of the pipeline.
        streams: (node, output port) → name of the variable that holds the stream.
    """

    source: str
    source_map: SourceMap
    validation: Validation
    streams: Mapping[tuple[str, str], str]

    @property
    def problems(self) -> Sequence[Problem]:
        return self.validation.problems

    @property
    def is_deployable(self) -> bool:
        """Return whether the program is the whole pipeline."""
        return self.validation.is_deployable


def compile_pipeline(
    document: Document, catalog: Catalog, *, version: int | None = None, memo: Memo | None = None
) -> Program:
    """Compile a pipeline.

    Args:
        document: the pipeline. A node that is unfinished or wrong is left out, with all below it.
        catalog: the node types that there are.
        version: of the pipeline, for the program's first line; None = it was not saved.
        memo: see `validate`.
    """
    validation = validate(document, catalog, memo)
    nodes = validation.complete(document)
    # names that the imports bring are known only when everything has been written once
    first = _Writer(document, catalog, validation, nodes, frozenset()).written()
    made = _Writer(document, catalog, validation, nodes, frozenset(first.imports().names())).written()
    source, lines = made.text(version)
    validation = replace(validation, problems=(*validation.problems, *made.problems))
    return Program(source, SourceMap(lines), validation, {place: found.name for place, found in made.streams.items()})


class _Writer:
    """Writes the program once.

    Args:
        taken: names that variables must not have.
    """

    def __init__(
        self,
        document: Document,
        catalog: Catalog,
        validation: Validation,
        nodes: Sequence[str],
        taken: frozenset[str],
    ) -> None:
        self.document = document
        self.catalog = catalog
        self.validation = validation
        self.nodes = nodes
        self.problems: list[Problem] = []
        #: by (node, output port)
        self.streams: dict[tuple[str, str], Variable] = {}
        self.statements: list[tuple[str | None, Statement]] = []
        self.code: list[tuple[str | None, Sequence[str]]] = []
        self.imported = taken
        #: names that the pipeline's own Python defines
        self.own = frozenset(self._own_names())
        self._taken = set(taken | self.own | _RESERVED)
        self.env = Variable(self.unique("env"), is_environment=True)
        self.configuration = Variable(self.unique("configuration"))

    def _own_names(self) -> Iterable[str]:
        pieces = [self.document.code]
        # with defaults: a node may rely on the code of its type
        pieces += [self.validation.nodes[node_id].params.get("code", ()) for node_id in self.nodes]
        for lines in pieces:
            try:
                found = definitions(lines, "")
            except NodeProblem:
                continue
            yield from found.names
            # a name that it takes from elsewhere must not become one of ours
            yield from (name for name, _, _ in found.used)

    def is_dealt_out(self, edge: Edge) -> bool:
        """Return whether the nodes of an edge may differ in parallelism."""
        return self._parallelism(edge.source) != self._parallelism(edge.target)

    def _parallelism(self, node_id: str) -> int | None:
        """Return the parallelism of a node; None: that with which the job is started."""
        node = self.document.nodes[node_id]
        if not self.catalog.types[node.type].is_parallel:
            return 1
        return node.parallelism or self.document.settings.get("parallelism")

    def unique(self, wanted: str) -> str:
        """Return a name that nothing else has, and take it."""
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._taken.add(name)
        return name

    def written(self) -> _Writer:
        """Write everything."""
        if self.document.code:
            self.code.append((None, self.document.code))
        for node_id in self.nodes:
            node = self.document.nodes[node_id]
            node_type = self.catalog.types[node.type]
            context = _Context(self, node, self.validation.nodes[node_id])
            try:
                streams = node_type.emit(context)
            except Exception as error:
                message = f"the node type failed: {type(error).__name__}: {error}"
                self.problems.append(Problem(Code.NODE_TYPE_BROKEN, message, node=node_id))
                continue
            for port, stream in streams.items():
                name = stream if isinstance(stream, Variable) else context.assign(stream, port)
                self.streams[node_id, port] = name
        return self

    def _head(self) -> list[Statement]:
        options = options_of(self.document.settings)
        environment = Imported("runtime.datastream", "StreamExecutionEnvironment")
        if not options:
            return [Statement(environment.call("get_execution_environment"), self.env.name)]
        given = Listing(tuple((Literal(key), Literal(value)) for key, value in options.items()), "{}")
        configuration = Imported(COMMON, "Configuration").call("from_dict", given)
        return [
            Statement(configuration, self.configuration.name),
            Statement(environment.call("get_execution_environment", self.configuration), self.env.name),
        ]

    def _tail(self) -> Statement:
        return Statement(self.env.call("execute", Literal(self.document.name)))

    def imports(self) -> Imports:
        imports = Imports()
        for statement in [*self._head(), *(statement for _, statement in self.statements)]:
            imports.add(statement.value)
        return imports

    def text(self, version: int | None) -> tuple[str, list[Lines]]:
        """Return the program, and its lines by node."""
        imports = self.imports()
        # what the pipeline's own Python calls by a name of ours keeps it: ours gets another one
        aliases = {name: self.unique(f"{name}_of_tidemark") for name in sorted(imports.names() & self.own)}
        lines = [_docstring(self.document.name, version), "", *_import_lines(imports, aliases)]
        found: list[Lines] = []
        for node_id, code in self.code:
            lines += [""] * 2
            found.append(Lines(node_id, len(lines) + 1, len(lines) + len(code), 1))
            lines += code
        lines += [""] * (2 if self.code else 1)
        for statement in self._head():
            lines += statement_text(_aliased(statement, aliases))
        last: str | None = None
        for node_id, statement in self.statements:
            if node_id != last or last is None:
                lines.append("")
            last = node_id
            shown = statement_text(_aliased(statement, aliases))
            found.append(Lines(node_id, len(lines) + 1, len(lines) + len(shown)))
            lines += shown
        lines += ["", *statement_text(self._tail()), ""]
        return "\n".join(lines), found


def _docstring(name: str, version: int | None) -> str:
    shown = repr(name)[1:-1].replace("\\'", "'")
    which = "" if version is None else f", version {version}"
    text = f"{shown.rstrip('.')}. Generated from a pipeline{which}."
    return literal_text(text) if _NOT_IN_DOCSTRING.search(text) else f'"""{text}"""'


def _import_lines(imports: Imports, aliases: Mapping[str, str]) -> list[str]:
    if not aliases:
        return imports.lines()
    made = []
    for module in sorted(imports.found, key=lambda module: (module.startswith("runtime"), module)):
        for name in sorted(imports.found[module]):
            alias = aliases.get(name or module)
            what = f"from {module} import {name}" if name else f"import {module}"
            made.append(what + (f" as {alias}" if alias else ""))
    return made


def _aliased(statement: Statement, aliases: Mapping[str, str]) -> Statement:
    if not aliases:
        return statement

    def renamed(expression: Any) -> Any:
        if isinstance(expression, Imported):
            return Variable(aliases.get(expression.name, expression.name))
        if isinstance(expression, Attribute):
            return Attribute(renamed(expression.of), expression.name)
        if isinstance(expression, Listing):
            return Listing(tuple(map(renamed, expression.items)), expression.brackets)
        if isinstance(expression, Call | Method):
            args = tuple(map(renamed, expression.args))
            named = tuple((name, renamed(value)) for name, value in expression.named)
            if isinstance(expression, Call):
                return Call(renamed(expression.function), args, named)
            return Method(renamed(expression.on), expression.name, args, named)
        return tuple(map(renamed, expression)) if isinstance(expression, tuple) else expression

    return replace(statement, value=renamed(statement.value))


class _Context(EmitContext):
    """Writes one node."""

    def __init__(self, writer: _Writer, node: Node, seen: NodeInput) -> None:
        self._writer = writer
        self._node = node
        self._seen = seen
        self._has_comment = False
        self._slug = _slug(node.name, node.type)

    @property
    def node(self) -> NodeInput:
        return self._seen

    @property
    def name(self) -> str:
        return self._node.name

    @property
    def env(self) -> Variable:
        return self._writer.env

    def input(self, port: str = "in") -> Expr:
        return self.streams(port)[0]

    def streams(self, port: str) -> list[Expr]:
        writer, made = self._writer, []
        for edge in writer.document.inputs_of(self._node.node_id):
            if edge.target_port != port or edge.source in writer.validation.inactive:
                continue
            stream: Expr = writer.streams[edge.source, edge.source_port]
            if edge.partitioning is not None:
                stream = stream.call(_PARTITIONINGS.get(edge.partitioning, edge.partitioning))
            elif edge.edge_id in writer.validation.in_order and writer.is_dealt_out(edge):
                facts = writer.validation.facts[edge.source, edge.source_port]
                assert isinstance(facts, StreamFacts)
                # else rows would be dealt out evenly, and the changes of a key overtake each other
                if facts.unique_key:
                    stream = stream.call("key_by_columns", *texts(facts.unique_key))
            made.append(stream)
        return made

    def output(self, port: str) -> StreamFacts:
        found = self._writer.validation.facts[self._node.node_id, port]
        assert not isinstance(found, Unknown)
        return found

    def operator(self, expression: Expr, part: str = "", is_named: bool = True) -> Expr:
        node, made = self._node, expression
        is_sink = self._writer.catalog.types[node.type].is_sink
        if is_named:
            made = made.call("name", Literal(f"{node.name}: {part}" if part else node.name))
        made = made.call("uid", Literal(f"{node.uid}/{part}" if part else node.uid))
        if node.parallelism is not None and self._writer.catalog.types[node.type].is_parallel:
            made = made.call("set_parallelism", Literal(node.parallelism))
        if node.max_parallelism is not None and not is_sink and self._writer.catalog.types[node.type].is_parallel:
            made = made.call("set_max_parallelism", Literal(node.max_parallelism))
        if node.chaining == "never":
            made = made.call("disable_chaining")
        elif node.chaining == "head" and not is_sink and not part:
            made = made.call("start_new_chain")
        if node.slot_group is not None:
            made = made.call("slot_sharing_group", Literal(node.slot_group))
        return made

    def assign(self, expression: Expr, suffix: str = "") -> Variable:
        target = Variable(self._writer.unique(f"{self._slug}_{suffix}" if suffix else self._slug))
        self._add(Statement(expression, target.name))
        return target

    def run(self, expression: Expr) -> None:
        self._add(Statement(expression))

    def define(self, lines: Sequence[str], name: str) -> Variable:
        self._writer.code.append((self._node.node_id, lines))
        return Variable(name)

    def _add(self, statement: Statement) -> None:
        if not self._has_comment:
            self._has_comment = True
            statement = replace(statement, comment=self._node.name)
        self._writer.statements.append((self._node.node_id, statement))


def _slug(name: str, node_type: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:_MAX_NAME].strip("_")
    if not words:
        words = re.sub(r"[^a-z0-9]+", "_", node_type.lower()).strip("_")
    return f"node_{words}" if words[0].isdigit() else words


__all__ = ["Program", "compile_pipeline", "plain"]
