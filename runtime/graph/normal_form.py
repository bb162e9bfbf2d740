"""The normal form of a job graph: equal for equal jobs, whatever directory, line or process their programs come from.

Factories are compared by value. Functions and classes of a program's own are taken apart: their code counts, not the
file and line where it stands. To take a factory apart it has to be loaded, so this is for places where the program may
run: tests, and tools of whoever wrote it. Never for a graph of somebody else's.
"""

from __future__ import annotations

import enum
import importlib
import types
from collections.abc import Mapping
from typing import Any

import cloudpickle

from runtime.graph.job_graph import ChainedOperator, JobGraph
from runtime.state.state_meta import DeclaredStates, meta_to_json

#: of a class, what Python makes by itself
_CLASS_NOISE = frozenset(
    {"__dict__", "__weakref__", "__module__", "__firstlineno__", "__static_attributes__", "__annotations__"}
    | {"__abstractmethods__", "_abc_impl", "__slotnames__"}
)
_CODE_FIELDS = (
    *("co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_flags", "co_code", "co_consts", "co_names"),
    *("co_varnames", "co_name", "co_freevars", "co_cellvars"),
)


def normal_form(graph: JobGraph) -> dict[str, Any]:
    """Return a job graph as plain values that are equal for equal jobs; without the job's id and places in programs.

    Raises:
        Exception: a factory cannot be loaded here.
    """
    return {
        "name": graph.name,
        "configuration": dict(sorted(graph.configuration.items())),
        "job_parameters": dict(sorted(graph.job_parameters.items())),
        "vertices": [
            {
                "id": vertex.vertex_id,
                "name": vertex.name,
                "parallelism": vertex.parallelism,
                "max_parallelism": vertex.max_parallelism,
                "slot_sharing_group": vertex.slot_sharing_group,
                "operators": [_operator(operator) for operator in vertex.operators],
                "chain_edges": [
                    (edge.source, edge.target, edge.input_index, edge.side_output_tag) for edge in vertex.chain_edges
                ],
            }
            for vertex in graph.vertices
        ],
        "edges": [
            {
                "source": (edge.source, edge.source_operator, edge.side_output_tag),
                "target": (edge.target, edge.input_index),
                "partitioning": edge.partitioning.value,
                "partitioner": None if edge.partitioner is None else _Walk().described(_loaded(edge.partitioner)),
                "record_type": None if edge.record_type is None else edge.record_type.type_string(),
                "buffer_timeout_ms": edge.buffer_timeout_ms,
            }
            for edge in graph.edges
        ],
    }


def _operator(operator: ChainedOperator) -> dict[str, Any]:
    return {
        "id": operator.operator_id,
        "uid": operator.uid,
        "name": operator.name,
        "description": operator.description,
        "factory": _Walk().described(_loaded(operator.factory)),
        "output_type": None if operator.output_type is None else operator.output_type.type_string(),
        "key_type": operator.key_type,
        "window_type": operator.window_type,
        "state_content": operator.state_content,
        "state_parts": operator.state_parts,
        "declared_states": _states(operator.declared_states),
        "unread_columns": operator.unread_columns,
    }


def _states(declared: DeclaredStates | None) -> list[Any] | None:
    return None if declared is None else [declared.is_complete, *map(meta_to_json, declared.states)]


def _loaded(data: bytes) -> Any:
    return cloudpickle.loads(data)


class _Walk:
    """Takes one value apart; what it meets again is a reference to the first time."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        #: keeps the objects alive, so that no other one gets the id of one of them
        self._met: list[Any] = []

    def described(self, value: Any) -> Any:
        """Return a value as nested tuples of plain values."""
        if value is None or (isinstance(value, (bool, int, float, str, bytes)) and not isinstance(value, enum.Enum)):
            return (type(value).__name__, repr(value))
        if isinstance(value, enum.Enum):
            return ("enum", type(value).__qualname__, value.name)
        if id(value) in self._numbers:
            return ("again", self._numbers[id(value)])
        self._numbers[id(value)] = len(self._met)
        self._met.append(value)
        return self._taken_apart(value)

    def _taken_apart(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
            return (type(value).__name__, *map(self.described, value))
        if type(value) in (set, frozenset):
            return (type(value).__name__, *sorted(map(repr, map(self.described, value))))
        if type(value) is dict:
            return ("dict", *((self.described(key), self.described(item)) for key, item in value.items()))
        if isinstance(value, types.CodeType):
            return ("code", *(self.described(getattr(value, name)) for name in _CODE_FIELDS))
        if isinstance(value, types.ModuleType):
            return ("module", value.__name__)
        if isinstance(value, types.CellType):
            return ("cell", self.described(value.cell_contents))
        if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)) and _is_importable(value):
            return ("global", value.__module__, value.__qualname__)
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, type):
            # pickling changes the order
            parts = {name: part for name, part in sorted(vars(value).items()) if name not in _CLASS_NOISE}
            return ("class", value.__qualname__, self.described(value.__bases__), self.described(parts))
        return ("object", *map(self.described, _reduced(value)))

    def _function(self, function: types.FunctionType) -> Any:
        names = _names_in(function.__code__)
        found = {name: function.__globals__[name] for name in sorted(names) if name in function.__globals__}
        parts = (function.__code__, function.__defaults__, function.__kwdefaults__, function.__closure__, found)
        return ("function", function.__qualname__, *map(self.described, parts))


def _is_importable(value: Any) -> bool:
    """Return whether other processes find it under its name."""
    if value.__module__ in (None, "__main__"):
        return False
    try:
        found: Any = importlib.import_module(value.__module__)
        for name in value.__qualname__.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError):
        return False
    return found is value


def _names_in(code: types.CodeType) -> set[str]:
    inner = [_names_in(part) for part in code.co_consts if isinstance(part, types.CodeType)]
    return set(code.co_names).union(*inner)


def _reduced(value: Any) -> tuple[Any, ...]:
    """Return what pickle would make the value of again."""
    reduced = value.__reduce_ex__(4)
    if isinstance(reduced, str):
        return (type(value), reduced)
    parts = []
    for part in reduced:
        is_iterator = not isinstance(part, (list, tuple, dict, Mapping)) and hasattr(part, "__next__")
        parts.append(list(part) if is_iterator else part)
    return tuple(parts)
