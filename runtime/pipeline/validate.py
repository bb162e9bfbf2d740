"""Validates a pipeline: what flows at every port, and what is wrong. Nothing runs, and nothing outside is asked.

`validate` goes through the nodes from the sources down. What a node makes of its inputs depends on its parameters and
on the facts of these inputs only, so a `Memo` keeps it: an edit costs the nodes below it. Below a node with an error or
an unfinished one nothing is known, and nothing is complained of. Pure; a Memo belongs to one thread at a time.
"""

from __future__ import annotations

import copy
import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from runtime.pipeline.catalog import Catalog
from runtime.pipeline.declarations import declared_types, parameter_problems
from runtime.pipeline.document import Document, Edge, Node
from runtime.pipeline.facts import StreamFacts, Unknown
from runtime.pipeline.fixes import watermark_fixes
from runtime.pipeline.json_schema import escaped, violations, with_defaults
from runtime.pipeline.node_type import NodeInput, NodeType, OutsideFiles, OutsideTable, Ports, Surroundings
from runtime.pipeline.problems import Code, Fix, NodeProblem, Problem
from runtime.pipeline.python_code import Binding, definitions
from runtime.pipeline.settings import in_micro_batches, is_checkpointed, settings_problems

MEMO_NODES = 5_000
#: a condition may be pages long, and the box has one line; more would only make the answers larger
MAX_LABEL_CHARS = 200
PARAMETER = "$parameter"
"""`{"$parameter": "min_price"}` stands for the value of a parameter of the pipeline."""
Facts = StreamFacts | Unknown
T = TypeVar("T")


@dataclass(frozen=True)
class Validation:
    """Holds what is known of a pipeline.

    Attributes:
        facts: (node, output port) → what leaves it.
        ports: node → its ports.
        labels: node → one line of what it does, from its parameters; "" if its type has none.
        nodes: node → as its type saw it; only those whose inputs are known.
        problems: of all nodes, in the order of the nodes, and then of the whole.
        inactive: nodes that are disabled, or get nothing because nodes above them are.
        in_order: edges on which the changes of a key have to stay in their order, because a table below is updated by
            it; without those into the table itself, which keys its rows.
    """

    facts: Mapping[tuple[str, str], Facts]
    ports: Mapping[str, Ports]
    labels: Mapping[str, str]
    nodes: Mapping[str, NodeInput]
    problems: tuple[Problem, ...]
    inactive: frozenset[str]
    in_order: frozenset[str] = frozenset()

    @property
    def is_deployable(self) -> bool:
        """Return whether the pipeline is finished and without errors."""
        return not any(problem.is_blocking for problem in self.problems)

    def complete(self, document: Document) -> list[str]:
        """Return the nodes that can be compiled: they and all nodes above them are without blocking problems."""
        blocked = {problem.node for problem in self.problems if problem.is_blocking}
        made: list[str] = []
        for node_id in document.order:
            if node_id in self.inactive or node_id in blocked or node_id not in self.nodes:
                continue
            above = {edge.source for edge in document.inputs_of(node_id)} - self.inactive
            if above <= set(made):
                made.append(node_id)
        return made


@dataclass(frozen=True, slots=True)
class _Read:
    """The parameters of a node, as its type reads them, with what follows from them alone."""

    key: tuple[str, int, str]
    """Type, version and text of the parameters."""
    params: dict[str, Any] | None
    """Complete and in the present form; None if something is wrong or missing."""
    problems: tuple[Problem, ...]
    ports: Ports
    label: str


Inferred = tuple[Mapping[str, Facts], tuple[Problem, ...], NodeInput | None]


class _Latest(Generic[T]):
    """The values that were used last, by key."""

    def __init__(self) -> None:
        self._values: OrderedDict[Any, T] = OrderedDict()

    def get(self, key: Any) -> T | None:
        found = self._values.get(key)
        if found is not None:
            self._values.move_to_end(key)
        return found

    def put(self, key: Any, value: T) -> None:
        self._values[key] = value
        if len(self._values) > MEMO_NODES:
            self._values.popitem(last=False)


class Memo:
    """Results of earlier validations, by node: by type and parameters, and by these and the facts of the inputs."""

    def __init__(self) -> None:
        self.read: _Latest[_Read] = _Latest()
        self.inferred: _Latest[Inferred] = _Latest()


def validate(document: Document, catalog: Catalog, memo: Memo | None = None) -> Validation:
    """Validate a pipeline.

    Args:
        document: the pipeline.
        catalog: the node types that there are.
        memo: of earlier validations of this pipeline or others with this catalog; it is added to.
    """
    return _Run(document, catalog, Memo() if memo is None else memo).result()


def outside_of(document: Document, catalog: Catalog, node_id: str) -> OutsideFiles | OutsideTable | None:
    """Return where the columns of a node can be read from; None: nowhere, or its parameters do not say it yet.

    Raises:
        KeyError: there is no such node.
    """
    node = document.nodes[node_id]
    node_type = catalog.get(node.type)
    if node_type is None:
        return None
    try:
        return node_type.outside(_Run(document, catalog, Memo()).prepared(node, node_type))
    except Exception:
        # the parameters are not checked yet
        return None


class _Run:
    def __init__(self, document: Document, catalog: Catalog, memo: Memo) -> None:
        self._document = document
        self._catalog = catalog
        self._memo = memo
        self._facts: dict[tuple[str, str], Facts] = {}
        self._ports: dict[str, Ports] = {}
        self._nodes: dict[str, NodeInput] = {}
        self._problems: dict[str | None, list[Problem]] = {}
        self._inactive: set[str] = set()
        self._in_order: set[str] = set()
        self._reads: dict[str, _Read] = {}
        self._types = declared_types(document)
        self._around = Surroundings(
            self._types.rows,
            self._types.faulty,
            "\n".join(document.code),
            is_checkpointed(document.settings),
            in_micro_batches(document.settings),
        )
        # a memo is for any pipeline: what is around a node is part of the question
        self._parameters_key = json.dumps(document.value["parameters"], sort_keys=True)
        execution = [self._around.is_checkpointed, self._around.in_micro_batches]
        self._around_key = json.dumps([document.types, document.code, *execution], sort_keys=True)

    def result(self) -> Validation:
        document = self._document
        for node_id in document.order:
            self._visit(document.nodes[node_id])
        for node_id in document.nodes.keys() - document.ranks.keys():
            self._ports[node_id] = self._ports_of(document.nodes[node_id])
        self._check_cycles()
        self._check_names()
        self._check_code()
        self._check_order()
        for problem in (
            *settings_problems(document.settings),
            *parameter_problems(document),
            *self._types.problems,
        ):
            self._add(None, problem)
        if not document.nodes.keys() - self._inactive:
            self._add(None, Problem(Code.EMPTY, "there is nothing to run yet"))
        nodes = dict.fromkeys([*document.order, *sorted(document.nodes)])
        order = {node_id: index for index, node_id in enumerate(nodes)}
        problems = [
            problem
            for node_id in sorted(self._problems, key=lambda item: order.get(item, len(order)) if item else len(order))
            for problem in self._problems[node_id]
        ]
        labels = {node_id: self._label_of(node) for node_id, node in document.nodes.items()}
        return Validation(
            self._facts,
            self._ports,
            labels,
            self._nodes,
            tuple(problems),
            frozenset(self._inactive),
            frozenset(self._in_order),
        )

    def _add(self, node_id: str | None, problem: Problem) -> None:
        found = problem if node_id is None else problem.at(node_id)
        self._problems.setdefault(node_id, []).append(found)

    # --- one node -----------------------------------------------------------------------------------------------------

    def _visit(self, node: Node) -> None:
        ports = self._ports[node.node_id] = self._ports_of(node)
        for port in ports.outputs:
            self._facts[node.node_id, port.name] = Unknown(node.node_id)
        inputs = self._inputs(node, ports)
        if node.disabled or self._is_cut_off(node, ports):
            self._inactive.add(node.node_id)
            return
        node_type = self._catalog.get(node.type)
        if node_type is None:
            broken = self._catalog.broken.get(node.type)
            if broken is None:
                problem = Problem(
                    Code.NODE_TYPE_MISSING, f"the node type {node.type!r} is not installed", field="/type"
                )
            else:
                message = f"the node type {node.type!r} cannot be loaded"
                problem = Problem(Code.NODE_TYPE_BROKEN, message, field="/type", hint=broken.splitlines()[-1])
            self._add(node.node_id, problem)
            return
        if node.type_version > node_type.version:
            message = f"made by version {node.type_version} of {node.type}; version {node_type.version} is installed"
            self._add(node.node_id, Problem(Code.NODE_TYPE_MISSING, message, field="/type_version"))
            return
        self._check_parallelism(node, node_type)
        is_connected = self._check_connected(node, ports, inputs)
        read = self._read(node, node_type)
        for problem in read.problems:
            self._add(node.node_id, problem)
        newer = _newer(node, node_type)
        if newer is not None:
            self._add(node.node_id, newer)
        if read.params is None or not is_connected:
            return
        known = {port: tuple(facts for _, facts in found) for port, found in inputs.items()}
        if any(isinstance(facts, Unknown) for found in known.values() for facts in found):
            return
        self._infer(node, node_type, read, known)  # type: ignore[arg-type]

    def _ports_of(self, node: Node) -> Ports:
        node_type = self._catalog.get(node.type)
        return Ports() if node_type is None else self._read(node, node_type).ports

    def _label_of(self, node: Node) -> str:
        node_type = self._catalog.get(node.type)
        return "" if node_type is None else self._read(node, node_type).label

    def prepared(self, node: Node, node_type: NodeType) -> Any:
        """Return the parameters of a node as its type takes them, unchecked.

        Raises:
            NodeProblem: they cannot be migrated, or a parameter of the pipeline has no value.
        """
        params: Any = node.params
        if node.type_version < node_type.version:
            try:
                params = _migrated(node, node_type)
            except Exception as error:
                message = f"version {node.type_version} of the parameters cannot be read: {error}"
                raise NodeProblem(Problem(Code.BAD_PARAM, message, field="/params")) from error
        return with_defaults(node_type.schema, self._substituted(params, "/params"))

    def _read(self, node: Node, node_type: NodeType) -> _Read:
        read = self._reads.get(node.node_id)
        if read is None:
            key = (node.type, node.type_version, node.params_text)
            read = self._memo.read.get((key, self._parameters_key))
            if read is None:
                read = self._read_anew(key, node, node_type)
                self._memo.read.put((key, self._parameters_key), read)
            self._reads[node.node_id] = read
        return read

    def _read_anew(self, key: tuple[str, int, str], node: Node, node_type: NodeType) -> _Read:
        try:
            params = self.prepared(node, node_type)
        except NodeProblem as wrong:
            return _Read(key, None, (wrong.problems[0],), node_type.ports({}), "")
        problems = tuple(
            Problem(Code.MISSING_PARAM if found.is_missing else Code.BAD_PARAM, found.message, field=found.pointer)
            for found in violations(node_type.schema, params, "/params")
        )
        # a type may fail on parameters that are not right
        try:
            ports = node_type.ports(params)
        except Exception:
            ports = node_type.ports({})
        try:
            label = node_type.label(params)[:MAX_LABEL_CHARS]
        except Exception:
            label = ""
        return _Read(key, None if problems else params, problems, ports, label)

    def _inputs(self, node: Node, ports: Ports) -> dict[str, list[tuple[Edge, Facts]]]:
        """Return the edges of each input, without those that carry nothing because a node above is disabled."""
        known = {port.name: port for port in ports.inputs}
        inputs: dict[str, list[tuple[Edge, Facts]]] = {name: [] for name in known}
        is_ghost = self._catalog.get(node.type) is None
        for edge in self._document.inputs_of(node.node_id):
            facts = self._facts.get((edge.source, edge.source_port))
            above = self._catalog.get(self._document.nodes[edge.source].type)
            if facts is None and above is not None:
                message = f"{self._document.nodes[edge.source].name!r} has no output {edge.source_port!r}"
                self._add(node.node_id, Problem(Code.PORT_MISSING, message, port=edge.target_port))
            if edge.target_port not in known:
                if not is_ghost:
                    self._add(node.node_id, Problem(Code.PORT_MISSING, f"there is no input {edge.target_port!r}"))
                continue
            if edge.source in self._inactive:
                continue
            if inputs[edge.target_port] and not known[edge.target_port].many:
                message = "takes one edge only"
                hint = "Put a Union node before it."
                problem = Problem(Code.DUPLICATE_INPUT, message, port=edge.target_port, hint=hint)
                self._add(node.node_id, problem)
                continue
            inputs[edge.target_port].append((edge, Unknown(edge.source) if facts is None else facts))
        return inputs

    def _is_cut_off(self, node: Node, ports: Ports) -> bool:
        """Return whether an input that the node needs is there, but carries nothing."""
        for port in ports.inputs:
            edges = [edge for edge in self._document.inputs_of(node.node_id) if edge.target_port == port.name]
            if edges and all(edge.source in self._inactive for edge in edges):
                names = ", ".join(repr(self._document.nodes[edge.source].name) for edge in edges)
                message = f"does not run either: {names} is disabled"
                self._add(node.node_id, Problem(Code.DISABLED_UPSTREAM, message, port=port.name))
                return True
        return False

    def _check_connected(self, node: Node, ports: Ports, inputs: Mapping[str, list[tuple[Edge, Facts]]]) -> bool:
        missing = [port for port in ports.inputs if not inputs[port.name]]
        for port in missing:
            label = f"the input {port.label or port.name!r} is" if len(ports.inputs) > 1 else "the input is"
            self._add(node.node_id, Problem(Code.NOT_CONNECTED, f"{label} not connected", port=port.name))
        return not missing

    def _check_parallelism(self, node: Node, node_type: NodeType) -> None:
        settings = self._document.settings
        parallelism = node.parallelism or settings.get("parallelism") or 1
        limit = node.max_parallelism or settings.get("max_parallelism")
        if not node_type.is_parallel:
            if node.parallelism not in (None, 1):
                message = "cannot run in parallel: its parallelism is 1"
                self._add(node.node_id, Problem(Code.NOT_PARALLEL, message, field="/parallelism"))
        elif limit is not None and parallelism > limit:
            message = f"the parallelism {parallelism} is above the max parallelism {limit}"
            field_name = "/parallelism" if node.parallelism else "/max_parallelism"
            self._add(node.node_id, Problem(Code.NOT_PARALLEL, message, field=field_name))

    def _substituted(self, value: Any, pointer: str) -> Any:
        if isinstance(value, dict):
            if value.keys() == {PARAMETER}:
                # a list or an object names nothing, and is no key either
                name = value[PARAMETER] if isinstance(value[PARAMETER], str) else None
                parameter = None if name is None else self._document.parameters.get(name)
                if parameter is None or parameter.get("default") is None:
                    what = "is not a parameter of the pipeline" if parameter is None else "has no value"
                    message = f"{repr(value[PARAMETER])[:80]} {what}"
                    raise NodeProblem(Problem(Code.PARAMETER_MISSING, message, field=pointer))
                return parameter["default"]
            return {name: self._substituted(item, f"{pointer}/{name}") for name, item in value.items()}
        if isinstance(value, list):
            return [self._substituted(item, f"{pointer}/{index}") for index, item in enumerate(value)]
        return value

    def _infer(
        self, node: Node, node_type: NodeType, read: _Read, inputs: Mapping[str, tuple[StreamFacts, ...]]
    ) -> None:
        assert read.params is not None
        key = (node.node_id, read.key, self._parameters_key, node.row, tuple(inputs.items()), self._around_key)
        found = self._memo.inferred.get(key)
        if found is None:
            found = _inferred(node_type, NodeInput(node.node_id, read.params, inputs, node.row, self._around))
            self._memo.inferred.put(key, found)
        outputs, problems, seen = found
        for port in outputs:
            self._facts[node.node_id, port] = outputs[port]
        for problem in problems:
            if problem.code in (Code.NO_WATERMARKS, Code.NO_EVENT_TIME) and problem.port is not None:
                problem = replace(
                    problem, fixes=watermark_fixes(self._document, self._catalog, node, problem.port, inputs)
                )
            self._add(node.node_id, problem)
        if seen is not None:
            self._nodes[node.node_id] = seen

    # --- the whole ----------------------------------------------------------------------------------------------------

    def _check_cycles(self) -> None:
        left = self._document.nodes.keys() - self._document.ranks.keys()
        below = {
            node_id: {edge.target for edge in self._document.edges.values() if edge.source == node_id}
            for node_id in left
        }
        # nodes from which no way leads back are below a cycle, not in it
        changed = True
        while changed:
            ends = {node_id for node_id in left if not below[node_id] & left}
            changed = bool(ends)
            left -= ends
        for node_id in sorted(left):
            names = ", ".join(repr(self._document.nodes[other].name) for other in sorted(left))
            self._add(node_id, Problem(Code.CYCLE, f"is in a cycle, at or with {names}"))

    def _check_names(self) -> None:
        for attribute, code in (("name", Code.NAME_TAKEN), ("uid", Code.UID_TAKEN)):
            seen: dict[str, str] = {}
            for node_id in sorted(self._document.nodes):
                value = getattr(self._document.nodes[node_id], attribute)
                first = seen.setdefault(value, node_id)
                if first != node_id:
                    message = f"another node has the {attribute} {value!r}"
                    problem = Problem(code, message, field=f"/{attribute}", related=((first, f"/{attribute}"),))
                    self._add(node_id, problem)
                elif attribute == "uid" and "/" in value:
                    # "x/left" is the name of a part of the operator "x"
                    self._add(node_id, Problem(Code.BAD_PARAM, "a uid must not have a slash", field="/uid"))

    def _check_code(self) -> None:
        """Find names that two pieces of code define, and names that nothing defines."""
        pieces: list[tuple[str | None, str]] = [(None, "/code")] if self._document.code else []
        pieces += [(node_id, "/params/code") for node_id, node in self._nodes.items() if node.params.get("code")]
        found = {}
        for node_id, pointer in pieces:
            lines = self._document.code if node_id is None else self._nodes[node_id].params["code"]
            try:
                found[node_id] = definitions(lines, pointer)
            except NodeProblem as wrong:
                if node_id is None:
                    self._add(None, wrong.problems[0])
        owners: dict[str, tuple[str | None, Binding]] = {}
        shared = found.get(None)
        for node_id, piece in found.items():
            for binding in piece.bound:
                owner, first = owners.setdefault(binding.name, (node_id, binding))
                if owner != node_id and node_id is not None and not _imports_the_same(first, binding):
                    self._add(node_id, self._defined_twice(node_id, owner, binding))
            around = frozenset() if shared is None else shared.names
            if piece.star or (shared is not None and shared.star):
                continue
            for name, line, column in piece.used:
                if name not in around:
                    pointer = "/code" if node_id is None else "/params/code"
                    message = f"line {line}: {name} is not defined"
                    hint = "Define or import it here, or in the pipeline's shared code."
                    line_pointer = f"{pointer}/{line - 1}"
                    span = (column, column + len(name))
                    self._add(node_id, Problem(Code.UNDEFINED_NAME, message, field=line_pointer, span=span, hint=hint))

    def _defined_twice(self, node_id: str, owner: str | None, binding: Binding) -> Problem:
        """Return the problem of a name that two pieces of code bind: both would have what the later one binds to it."""
        here = self._document.nodes[node_id].name
        there = "the pipeline's shared code" if owner is None else repr(self._document.nodes[owner].name)
        message = f"{binding.name} is defined in {there} and in {here!r}: both would use that of {here!r}"
        hint = "Give one of them another name, or define it once, in the pipeline's shared code."
        place = ("", "/code") if owner is None else (owner, "/params/code")
        line = f"/params/code/{binding.line - 1}"
        return Problem(Code.NAME_DEFINED_TWICE, message, field=line, hint=hint, related=(place,))

    def _updates_by_key(self, node_id: str) -> bool:
        node_type = self._catalog.types[self._document.nodes[node_id].type]
        try:
            return node_type.updates_by_key(self._nodes[node_id].params)
        except Exception:
            # a third party's; an edge above its node is not worth the whole answer
            return False

    def _check_order(self) -> None:
        """Find edges above tables that deal out the changes of a key: a table must get them in their order."""
        tables = set(filter(self._updates_by_key, self._nodes))
        above = set(tables)
        for node_id in reversed(self._document.order):
            for edge in self._document.inputs_of(node_id) if node_id in above else ():
                facts = self._facts.get((edge.source, edge.source_port))
                if edge.source in self._inactive or not isinstance(facts, StreamFacts) or facts.changelog == "append":
                    continue
                above.add(edge.source)
                if node_id not in tables:
                    self._in_order.add(edge.edge_id)
                # all rows in one subtask are in order
                if edge.partitioning is not None and (node_id in tables or edge.partitioning != "global"):
                    self._add(node_id, _out_of_order(edge))


def _migrated(node: Node, node_type: NodeType) -> Mapping[str, Any]:
    """Return the parameters of a node of an earlier version of its type in the present form."""
    # a type may change what it is given, and documents share their nodes
    return node_type.migrate(copy.deepcopy(dict(node.params)), node.type_version)


def _newer(node: Node, node_type: NodeType) -> Problem | None:
    """Return the note that a node has parameters of an earlier version of its type, and its present ones as the fix."""
    if node.type_version >= node_type.version:
        return None
    try:
        params = json.loads(json.dumps(_migrated(node, node_type)))
    except Exception:
        # that is a problem of the parameters
        return None
    message = f"has the parameters of version {node.type_version} of {node.type}; version {node_type.version} runs"
    patch = (
        {"op": "replace", "path": "/params", "value": params},
        {"op": "replace", "path": "/type_version", "value": node_type.version},
    )
    hint = "It runs as it is. Its form is that of the newer version."
    fix = Fix(f"Bring it to version {node_type.version}", patch)
    return Problem(Code.NODE_TYPE_NEWER, message, field="/type_version", hint=hint, fixes=(fix,))


def _imports_the_same(one: Binding, other: Binding) -> bool:
    return one.imports is not None and one.imports == other.imports


def _out_of_order(edge: Edge) -> Problem:
    message = f"rows are dealt out ({edge.partitioning}): the changes of a key would reach the table in any order"
    patch = {"op": "replace", "path": f"/edges/{escaped(edge.edge_id)}/partitioning", "value": None}
    fix = Fix("Take the partitioning off", (patch,))
    hint = "Without a partitioning, all changes of a key go the same way."
    return Problem(Code.CHANGES_OUT_OF_ORDER, message, port=edge.target_port, hint=hint, fixes=(fix,))


def _inferred(
    node_type: NodeType, seen: NodeInput
) -> tuple[Mapping[str, Facts], tuple[Problem, ...], NodeInput | None]:
    try:
        outputs = dict(node_type.infer(seen))
    except NodeProblem as problem:
        return {}, (*seen.found, *problem.problems), None
    except BaseException as error:
        # a panic of Polars is no Exception
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        message = f"the node type failed: {type(error).__name__}: {error}"
        return {}, (Problem(Code.NODE_TYPE_BROKEN, message),), None
    return outputs, tuple(seen.found), seen


def problems_json(problems: Iterator[Problem] | tuple[Problem, ...]) -> list[dict[str, Any]]:
    """Return problems in the form for the page."""
    return [problem.to_json() for problem in problems]
