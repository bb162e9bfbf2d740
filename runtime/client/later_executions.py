"""Finds calls of `execute()` that a program would reach after the current one.

A submitted program ends at its first `execute()`: a second job would never be run, and nobody would know. The rest
is not run to find out, for it is written for the time after the job. It is read: from the frames that are at
`execute()`, outwards, along the statements that follow. Calls that certainly come are told apart from those that may,
in a branch or in another turn of a loop. A method, or a function that is handed on, may lead to one if it has the name
of one that is under way. Ways that cannot be read (aliases, decorators, eval) are not followed.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, Final

EXECUTIONS: Final = ("execute", "execute_async")
GETTER: Final = "get_execution_environment"
MAX_DEPTH: Final = 8
"""Maximum depth of functions that call functions."""

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_BRANCHES = (ast.If, ast.Try, ast.Match, ast.For, ast.AsyncFor, ast.While)
_ENDS = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, slots=True)
class LaterExecution:
    """A later call."""

    file: str
    line: int
    is_certain: bool


@dataclass(frozen=True, slots=True)
class Program:
    """Tells what belongs to a program.

    Args:
        is_own_file: whether a file is the program's.
        is_environment: whether a value is an execution environment.
    """

    is_own_file: Callable[[str], bool]
    is_environment: Callable[[object], bool]


def later_executions(frame: FrameType | None, program: Program) -> list[LaterExecution]:
    """Return the calls of `execute()` that follow, nearest first.

    Args:
        frame: that is at an `execute()`, or one that it has called.
        program: that runs.
    """
    found: list[LaterExecution] = []
    running: set[str] = set()
    while frame is not None:
        code = frame.f_code
        if program.is_own_file(code.co_filename):
            names = {**frame.f_globals, **frame.f_locals}
            body = _statements(code, frame.f_globals)
            found += _Reader(program, code.co_filename, names, running=frozenset(running)).behind(body, frame.f_lineno)
            running.add(code.co_name)
        frame = frame.f_back
    return found


def _statements(code: CodeType, module: dict[str, Any]) -> Sequence[ast.stmt]:
    """Return the statements of a function or module; none if its source cannot be read."""
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename, module)))
    except (SyntaxError, ValueError):
        return ()
    if code.co_name == "<module>":
        return tree.body
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first == code.co_firstlineno:
                return node.body
    return ()


class _Reader:
    """Reads the statements of one frame or function.

    Args:
        program: whose they are.
        file: in which they are.
        names: values of names that are known.
        bound: names that are known to be environments.
        depth: of calls.
        running: names of the program's functions that are under way, and lead to the current `execute()`.
    """

    def __init__(
        self,
        program: Program,
        file: str,
        names: Mapping[str, Any],
        bound: Sequence[str] = (),
        depth: int = 0,
        running: frozenset[str] = frozenset(),
    ) -> None:
        self._program = program
        self._file = file
        self._names = names
        self._bound = set(bound)
        self._depth = depth
        self._running = running

    def behind(self, body: Sequence[ast.stmt], line: int) -> Iterator[LaterExecution]:
        """Yield the calls after the statement at that line."""
        for index, statement in enumerate(body):
            if not statement.lineno <= line <= (statement.end_lineno or line):
                self._note_bindings(statement)
                continue
            for block in _blocks(statement):
                yield from self.behind(block, line)
            if not any(_blocks(statement)):
                yield from self._repeated(statement)
            if isinstance(statement, ast.For | ast.AsyncFor | ast.While):
                yield from self.block(statement.body, is_certain=False)
            if isinstance(statement, ast.Try):
                in_body = statement.body[0].lineno <= line <= (statement.body[-1].end_lineno or line)
                yield from self.block(statement.orelse if in_body else (), is_certain=True)
                in_end = bool(statement.finalbody) and line >= statement.finalbody[0].lineno
                yield from self.block(() if in_end else statement.finalbody, is_certain=True)
            if not isinstance(statement, _ENDS):
                yield from self.block(body[index + 1 :], is_certain=True)
            return

    def block(self, body: Sequence[ast.stmt], *, is_certain: bool) -> Iterator[LaterExecution]:
        """Yield the calls of statements that run one after the other."""
        for statement in body:
            if isinstance(statement, _DEFINITIONS):
                continue
            self._note_bindings(statement)
            for call, comes in _calls(statement, is_certain=is_certain):
                yield from self._call(call, is_certain=comes)
            if isinstance(statement, _ENDS) or _exits(statement):
                return
            # what follows comes only if this does not leave
            is_certain = is_certain and not any(map(_leaves, ast.walk(statement)))

    def _repeated(self, statement: ast.stmt) -> Iterator[LaterExecution]:
        """Yield the calls that the statement which is under way may make once more."""
        nodes = list(ast.walk(statement))
        again = [node for each in nodes if isinstance(each, _COMPREHENSIONS) for node in ast.walk(each)]
        calls = [node for node in again if isinstance(node, ast.Call)]
        is_repeated = any(self._runs(call.func) or [*self._call(call, is_certain=False)] for call in calls)
        if is_repeated or any(self._hands_on(node) for node in nodes if isinstance(node, ast.Call)):
            yield LaterExecution(self._file, statement.lineno, is_certain=False)

    def _runs(self, function: ast.expr) -> bool:
        """Return whether a function or method has the name of one that is under way."""
        if isinstance(function, ast.Attribute):
            owner = self._names.get(function.value.id) if isinstance(function.value, ast.Name) else None
            return function.attr in self._running and not isinstance(owner, ModuleType)
        return isinstance(function, ast.Name) and function.id in self._running

    def _hands_on(self, call: ast.Call) -> bool:
        """Return whether a call is given a function that is under way, and may call it."""
        return any(self._runs(argument) for argument in call.args if isinstance(argument, ast.Name | ast.Attribute))

    def _call(self, call: ast.Call, *, is_certain: bool) -> Iterator[LaterExecution]:
        function = call.func
        if isinstance(function, ast.Attribute) and function.attr in EXECUTIONS:
            if self._is_environment(function.value):
                yield LaterExecution(self._file, call.lineno, is_certain)
        elif (isinstance(function, ast.Attribute) and self._runs(function)) or self._hands_on(call):
            yield LaterExecution(self._file, call.lineno, is_certain=False)
        elif isinstance(function, ast.Name) and self._depth < MAX_DEPTH:
            called = self._names.get(function.id)
            if isinstance(called, FunctionType) and self._program.is_own_file(called.__code__.co_filename):
                for inner in self._inside(called, call):
                    # the line of the call says more than the one inside, which may be that of the first execution
                    yield LaterExecution(self._file, call.lineno, is_certain and inner.is_certain)
                    return

    def _inside(self, function: FunctionType, call: ast.Call) -> Iterator[LaterExecution]:
        code = function.__code__
        given = zip(code.co_varnames[: code.co_argcount], call.args, strict=False)
        bound = [name for name, argument in given if self._is_environment(argument)]
        reader = _Reader(self._program, code.co_filename, function.__globals__, bound, self._depth + 1)
        return reader.block(_statements(code, function.__globals__), is_certain=True)

    def _is_environment(self, value: ast.expr) -> bool:
        match value:
            case ast.Name(id=name):
                return name in self._bound or self._program.is_environment(self._names.get(name))
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                return self._program.is_environment(getattr(self._names.get(name), "__dict__", {}).get(attribute))
            case ast.Call(func=ast.Attribute(attr=called)):
                return called == GETTER
        return False

    def _note_bindings(self, statement: ast.stmt) -> None:
        """Remember names that become environments: their values do not exist yet."""
        for node in ast.walk(statement):
            if isinstance(node, ast.Assign) and self._is_environment(node.value):
                self._bound |= {target.id for target in node.targets if isinstance(target, ast.Name)}


def _calls(node: ast.AST, *, is_certain: bool) -> Iterator[tuple[ast.Call, bool]]:
    """Yield the calls in a statement or expression, and whether they certainly come if it does."""
    if isinstance(node, _DEFINITIONS):
        return
    if isinstance(node, ast.Call):
        yield node, is_certain
    certain: Sequence[ast.AST] | None = None
    match node:
        case ast.BoolOp(values=[first, *_]):
            certain = [first]
        case ast.IfExp(test=test) | ast.Assert(test=test):
            certain = [test]
        case _ if isinstance(node, (*_BRANCHES, *_COMPREHENSIONS, ast.Lambda)):
            certain = []
    for child in ast.iter_child_nodes(node):
        yield from _calls(child, is_certain=is_certain and (certain is None or child in certain))


def _leaves(node: ast.AST) -> bool:
    return isinstance(node, ast.Return | ast.Raise) or _exits(node)


def _exits(statement: ast.AST) -> bool:
    """Return whether a statement ends the program."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Name(id="exit" | "quit"))):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="sys" | "os"), attr="exit" | "_exit"))):
            return True
    return False


def _blocks(statement: ast.stmt) -> Iterator[Sequence[ast.stmt]]:
    """Yield the blocks inside a statement."""
    if isinstance(statement, _DEFINITIONS):
        return
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, ())
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body
