"""Looks at Python that a pipeline holds, without running it: does it parse, what does it define and lack? Pure."""

from __future__ import annotations

import ast
import builtins
import symtable
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from runtime.pipeline.problems import Code, NodeProblem, Problem

_ALWAYS_THERE = frozenset(dir(builtins)) | {"__name__", "__file__", "__doc__", "__builtins__"}


@dataclass(frozen=True, slots=True)
class Binding:
    """A name that statements at the top bind: by an assignment, def, class, import, for, with, except, case or del."""

    name: str
    line: int
    """Of the first of them."""
    imports: frozenset[str] | None
    """What is imported under the name, as "os" or "os.path:join"; None: something else is bound to it, too."""


@dataclass(frozen=True, slots=True)
class Definitions:
    """What a piece of Python defines and uses at the top.

    Attributes:
        bound: names that its statements at the top bind, in order.
        defined: every name that it defines, with its line; also those that functions declare as global.
        callables: functions and classes, in order.
        used: names that it takes from outside of itself, with line (from 1) and column (from 0) of the first use.
        star: whether it imports names that are not known (`from x import *`).
    """

    bound: tuple[Binding, ...]
    defined: tuple[tuple[str, int], ...]
    callables: tuple[str, ...]
    used: tuple[tuple[str, int, int], ...]
    star: bool

    @property
    def names(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.defined)


def definitions(lines: Sequence[str], pointer: str) -> Definitions:
    """Return what a piece of Python defines.

    Args:
        lines: of it.
        pointer: JSON pointer of the list of lines, for problems.

    Raises:
        NodeProblem: it is no Python that can stand in the middle of a program.
    """
    found = _looked_at("\n".join(lines))
    if isinstance(found, Definitions):
        return found
    message, line, column = found
    line = min(max(line, 1), max(len(lines), 1))
    start = utf16_length(str(lines[line - 1])[: column - 1]) if lines and column else 0
    span = (start, start + 1) if column else None
    raise NodeProblem(Problem(Code.SYNTAX, f"line {line}: {message}", field=f"{pointer}/{line - 1}", span=span))


@lru_cache(maxsize=512)
def _looked_at(text: str) -> Definitions | tuple[str, int, int]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text + "\n")
            compile(tree, "<pipeline>", "exec", dont_inherit=True)
            table = symtable.symtable(text + "\n", "<pipeline>", "exec")
    except SyntaxError as error:
        return error.msg, error.lineno or 1, error.offset or 0
    except (ValueError, RecursionError, MemoryError) as error:
        return f"cannot be read: {error or type(error).__name__}", 1, 0
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            return "imports from __future__ belong at the beginning of a program, which this is not", node.lineno, 0
    star = any(
        isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names) for node in ast.walk(tree)
    )
    callables = tuple(
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    )
    bound = _bound(tree)
    defined = {binding.name: binding.line for binding in bound}
    # what a function declares as global and sets is there, too
    made = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    defined |= {name: 1 for name in made if name not in defined}
    used = _used(text, tree, table, defined.keys())
    return Definitions(bound, tuple(defined.items()), callables, used, star)


#: bases that say nothing of what a class is for
_PLAIN_BASES = frozenset({"object", "abc:ABC", "typing:Generic", "typing:Protocol"})


def engine_bases(lines: Sequence[str], name: str) -> frozenset[str] | None:
    """Return the engine's classes that a class of the code derives from, over other classes of the code, too.

    Args:
        lines: of Python that has no problems.
        name: of the class.

    Returns:
        Their names without modules; None: it is no class, or derives from what is not known here.
    """
    return _engine_bases("\n".join(lines), name)


@lru_cache(maxsize=512)
def _engine_bases(text: str, name: str) -> frozenset[str] | None:
    tree = ast.parse(text + "\n")
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    imports = {binding.name: binding.imports for binding in _bound(tree)}
    assigned = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    found: set[str] = set()
    todo, seen = [name], set[str]()
    while todo:
        each = todo.pop()
        if each in seen:
            continue
        seen.add(each)
        # a decorator, a metaclass or an assignment may make anything of it
        if each not in classes or each in assigned or classes[each].decorator_list or classes[each].keywords:
            return None
        for base in classes[each].bases:
            origin = _origin(base.value if isinstance(base, ast.Subscript) else base, imports)
            if origin in classes:
                todo.append(origin)
            elif origin is not None and origin.startswith("runtime."):
                found.add(origin.rpartition(":")[2])
            elif origin not in _PLAIN_BASES:
                return None
    return frozenset(found)


def _origin(base: ast.expr, imports: Mapping[str, frozenset[str] | None]) -> str | None:
    """Return "module:name" of what is imported, the name of what is defined; None: it is not known."""
    attributes = []
    while isinstance(base, ast.Attribute):
        attributes.append(base.attr)
        base = base.value
    if not isinstance(base, ast.Name):
        return None
    if base.id not in imports or imports[base.id] is None:
        return None if attributes else base.id
    whence = imports[base.id] or frozenset()
    if len(whence) != 1:
        return None
    (origin,) = whence
    path = [*origin.replace(":", ".").split("."), *reversed(attributes)]
    return f"{'.'.join(path[:-1])}:{path[-1]}"


def _bound(tree: ast.Module) -> tuple[Binding, ...]:
    lines: dict[str, int] = {}
    imports: dict[str, set[str | None]] = {}
    # without recursion: a sum may be deep
    todo: list[Any] = [tree]
    while todo:
        node = todo.pop()
        for name, what in _bound_by(node):
            lines[name] = min(node.lineno, lines.get(name, node.lineno))
            imports.setdefault(name, set()).add(what)
        todo += _parts_in_module(node)
    return tuple(
        Binding(name, line, None if None in imports[name] else frozenset(map(str, imports[name])))
        for name, line in sorted(lines.items(), key=lambda item: (item[1], item[0]))
    )


def _bound_by(node: ast.AST) -> Iterator[tuple[str, str | None]]:
    """Yield the names that a node itself binds, each with what it imports under it; None: it does not import."""
    match node:
        case ast.Import():
            for alias in node.names:
                # "import os.path" binds os
                name = alias.asname or alias.name.partition(".")[0]
                yield name, alias.name if alias.asname else name
        case ast.ImportFrom():
            for alias in node.names:
                if alias.name != "*":
                    yield alias.asname or alias.name, f"{'.' * node.level}{node.module or ''}:{alias.name}"
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name, None
        case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar() if node.name is not None:
            yield node.name, None
        case ast.MatchMapping() if node.rest is not None:
            yield node.rest, None
        case ast.Name() if not isinstance(node.ctx, ast.Load):
            yield node.id, None


def _parts_in_module(node: ast.AST) -> Iterable[ast.AST]:
    """Return the parts of a node that bind names in its own scope."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
        return ()
    if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        return [part.target for part in ast.walk(node) if isinstance(part, ast.NamedExpr)]
    if isinstance(node, ast.AnnAssign) and node.value is None:
        # "x: int" binds nothing
        return ()
    return ast.iter_child_nodes(node)


def _used(
    text: str, tree: ast.Module, table: symtable.SymbolTable, defined: Iterable[str]
) -> tuple[tuple[str, int, int], ...]:
    wanted = set(_global_names(table)) - set(defined) - _ALWAYS_THERE
    places: dict[str, tuple[int, int]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in wanted:
            place = node.lineno, node.col_offset
            places[node.id] = min(place, places.get(node.id, place))
    # ast counts columns in bytes, and lines as the reader of Python source does
    lines = text.encode().splitlines()
    found = [(name, line, utf16_length(lines[line - 1][:column].decode())) for name, (line, column) in places.items()]
    return tuple(sorted(found, key=lambda item: (item[1], item[0])))


def utf16_length(text: str) -> int:
    """Return the length of a text as JavaScript counts it: characters beyond the Basic Multilingual Plane are two."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _global_names(table: symtable.SymbolTable) -> Iterator[str]:
    todo = [table]
    while todo:
        part = todo.pop()
        todo += part.get_children()
        for symbol in part.get_symbols():
            if symbol.is_referenced() and (symbol.is_global() or part.get_type() == "module"):
                yield symbol.get_name()
