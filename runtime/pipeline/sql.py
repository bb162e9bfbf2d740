"""SQL expressions of a pipeline: they are checked before Polars sees them, and its complaints become problems.

The checks bound what the process that validates may be made to do. Polars types 1,000 nested operators in 0.6 s, 3,000
in 28 s, and overflows its stack at 20,000; a call such as `generate_series(1, 100000000000)` is computed even though no
row is there, and ends the process when its memory does. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache

from runtime.operators.columnar.expressions import ColumnExpressionError, Token, name_of, tokens_of
from runtime.pipeline.identifiers import WORDS, identifier
from runtime.pipeline.problems import Code, NodeProblem, Problem, unknown_column

MAX_TOKENS = 600
MAX_CHARS = 16 << 10
#: functions whose result can be larger than everything that they are given
GROWING = frozenset(
    {"array_fill", "array_repeat", "format", "generate_series", "int_range", "list_repeat", "lpad", "range"}
    | {"regexp_replace", "repeat", "replace", "rpad", "sequence", "space", "translate"}
)
_UNKNOWN = re.compile(r'(?:unable to find column|not found: column|column) "([^"]*)"')


class Expression:
    """Where an expression is: for problems that are about it.

    Args:
        field: JSON pointer below the node.
        text: of the expression.
    """

    def __init__(self, field: str, text: str) -> None:
        self.field = field
        self.text = text


def check_size(expression: Expression) -> None:
    """Refuse an expression that is too large, or whose constants could become so.

    Raises:
        NodeProblem: it is.
    """
    if len(expression.text) > MAX_CHARS:
        raise _problem(expression, Code.BAD_EXPRESSION, f"has more than {MAX_CHARS} characters")
    excess = _excess(expression.text)
    if excess is not None:
        message, span = excess
        raise _problem(expression, Code.BAD_EXPRESSION, message, span)


@lru_cache(maxsize=8_192)
def _excess(text: str) -> tuple[str, tuple[int, int] | None] | None:
    """Return what is too large in an expression, and where; None if nothing is."""
    tokens = tokens_of(text)
    if len(tokens) > MAX_TOKENS:
        return f"has more than {MAX_TOKENS} words and signs", None
    for index, token in enumerate(tokens[:-1]):
        is_call = name_of(token.text).lower() in GROWING and tokens[index + 1].text == "("
        if is_call and not any(map(_may_be_column, _inside(tokens[index + 1 :]))):
            message = f"{token.text} needs a column: of constants alone, write the result"
            return message, (token.start, token.start + len(token.text))
    return None


def _inside(tokens: Sequence[Token]) -> Iterator[tuple[Token, str]]:
    """Yield the tokens in the parentheses that come first, each with the text of the next one."""
    depth = 0
    for token, after in zip(tokens, [*tokens[1:], Token(" ", 0)], strict=True):
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0:
            return
        yield token, after.text


def _may_be_column(found: tuple[Token, str]) -> bool:
    token, after = found
    if token.text[:1] == '"':
        return True
    # a word behind which a text stands is a type: DATE '2026-01-31'
    return bool(token.word) and token.word not in WORDS and after != "(" and not after.startswith("'")


@contextmanager
def problems_of(expressions: Sequence[Expression], columns: Iterable[str]) -> Iterator[None]:
    """Turn errors of the engine's checks into problems of the expressions.

    Args:
        expressions: those that the block checks.
        columns: that they may name.

    Raises:
        NodeProblem: the block raised an error, or an expression is too large.
    """
    for expression in expressions:
        check_size(expression)
    try:
        yield
    except ColumnExpressionError as error:
        raise NodeProblem(_diagnosis(error, expressions, list(columns))) from None
    except (TypeError, ValueError) as error:
        field = expressions[0].field if len(expressions) == 1 else None
        raise NodeProblem(Problem(Code.TYPE_MISMATCH, str(error), field=field)) from None


def _diagnosis(
    error: ColumnExpressionError,
    expressions: Sequence[Expression],
    columns: list[str],
) -> Problem:
    at = next((found for found in expressions if found.text == error.expression), None)
    if at is None:
        # an aggregate's argument, or the columns that result
        at = next((found for found in expressions if error.expression and error.expression in found.text), None)
    if at is None:
        at = expressions[0] if expressions else Expression("/params", error.expression)
    found = _UNKNOWN.search(error.reason)
    if found is not None:
        return _unknown_column(found[1], at, columns)
    if "a condition must be" in error.reason:
        return Problem(Code.NOT_A_CONDITION, error.reason, field=at.field)
    if "two columns are named" in error.reason or "of this name" in error.reason or "has already" in error.reason:
        return Problem(Code.NAME_TAKEN, str(error), field=at.field)
    return Problem(Code.BAD_EXPRESSION, error.reason, field=at.field)


def _unknown_column(name: str, at: Expression, columns: list[str]) -> Problem:
    token = next((token for token in tokens_of(at.text) if name_of(token.text) == name), None)
    span = None if token is None else (token.start, token.start + len(token.text))
    return unknown_column(name, at.field, columns, at.text, span)


def _problem(expression: Expression, code: Code, message: str, span: tuple[int, int] | None = None) -> NodeProblem:
    return NodeProblem(Problem(code, message, field=expression.field, span=span))


def renamed_in(text: str, names: Mapping[str, str]) -> str:
    """Return an expression with columns renamed; functions, texts and words of SQL stay.

    Args:
        text: of the expression.
        names: old name → new name.
    """
    tokens = tokens_of(text)
    made, end = [], 0
    for token, after in zip(tokens, [*tokens[1:], Token(" ", len(text))], strict=True):
        is_name = token.text[:1] == '"' or (bool(token.word) and token.word not in WORDS and after.text != "(")
        if is_name and name_of(token.text) in names:
            made += [text[end : token.start], identifier(names[name_of(token.text)])]
            end = token.start + len(token.text)
    return "".join([*made, text[end:]])
