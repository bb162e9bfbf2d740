"""What a pipeline declares for its nodes: row types under names, and parameters. Finds what is wrong with them. Pure.

A declaration that is wrong or unfinished is a problem of the pipeline, at its field; a document with one can be kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.common.typeinfo import RowTypeInfo, parse_type
from runtime.pipeline.catalog import fields
from runtime.pipeline.document import Document
from runtime.pipeline.json_schema import escaped, violations
from runtime.pipeline.node_type import checked_names
from runtime.pipeline.problems import Code, NodeProblem, Problem

_COLUMNS = fields.row_type()
_LONG = range(-(2**63), 2**63)
_KINDS: Mapping[str, type | tuple[type, ...]] = {"string": str, "long": int, "double": (int, float), "boolean": bool}


@dataclass(frozen=True)
class DeclaredTypes:
    """The types of a pipeline.

    Attributes:
        rows: of those that are right, by name.
        faulty: names of the others.
        problems: of these.
    """

    rows: Mapping[str, RowTypeInfo]
    faulty: frozenset[str]
    problems: tuple[Problem, ...]


def declared_types(document: Document) -> DeclaredTypes:
    """Return the types that a pipeline declares, and what is wrong with them."""
    rows: dict[str, RowTypeInfo] = {}
    problems: list[Problem] = []
    for name, value in document.types.items():
        pointer = f"/types/{escaped(name)}/columns"
        found = list(_column_problems(value["columns"], pointer))
        problems += found
        if not found:
            columns = value["columns"]
            rows[name] = RowTypeInfo([parse_type(text) for _, text in columns], [column for column, _ in columns])
    return DeclaredTypes(rows, frozenset(document.types.keys() - rows.keys()), tuple(problems))


def _column_problems(columns: Sequence[Any], pointer: str) -> Iterable[Problem]:
    for violation in violations(_COLUMNS, columns, pointer):
        code = Code.MISSING_PARAM if violation.is_missing else Code.BAD_PARAM
        yield Problem(code, violation.message, field=violation.pointer)
    try:
        checked_names([name for name, _ in columns], pointer)
    except NodeProblem as problem:
        yield from problem.problems


def parameter_problems(document: Document) -> list[Problem]:
    """Return what is wrong with the values of a pipeline's parameters. One without a value is no problem by itself."""
    found = []
    for index, parameter in enumerate(document.parameters.values()):
        value, kind = parameter.get("default"), parameter["type"]
        if value is not None and not _is_of(value, kind):
            message = f"the value of {parameter['name']!r} is not of type {kind}"
            found.append(Problem(Code.TYPE_MISMATCH, message, field=f"/parameters/{index}/default"))
    return found


def _is_of(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _KINDS[kind]) and (kind != "long" or value in _LONG)
