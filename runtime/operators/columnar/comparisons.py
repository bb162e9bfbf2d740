"""Conditions that are comparisons of columns with constants, so that a source can apply them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from runtime.common.typeinfo import TypeInformation, Types
from runtime.core.column_condition import ColumnCondition
from runtime.operators.columnar.expressions import Token, column_of, tokens_of

_WHOLE_NUMBERS: Final = (Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG())
#: comparison → the same with its sides exchanged
_TURNED: Final = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_DIGITS: Final = re.compile(r"[0-9]{1,18}")


def comparisons_of(condition: str, fields: Mapping[str, TypeInformation]) -> tuple[ColumnCondition, ...]:
    """Return comparisons that must all hold for the condition to be true, and no others.

    Args:
        condition: a checked SQL expression.
        fields: types of the columns.

    Returns:
        () if the condition is anything else: such a condition may also fail.
    """
    found = []
    part: list[Token] = []
    for token in [*tokens_of(condition), None]:
        if token is not None and token.word != "and":
            part.append(token)
            continue
        comparison = _comparison(part, fields)
        if comparison is None:
            return ()
        found.append(comparison)
        part = []
    return tuple(found)


def _comparison(tokens: Sequence[Token], fields: Mapping[str, TypeInformation]) -> ColumnCondition | None:
    texts = [token.text for token in tokens]
    places = [index for index, text in enumerate(texts) if text in ("<", ">", "=")]
    # the tokens of <= and >= are two
    if not places or places[-1] - places[0] + 1 != len(places):
        return None
    comparison, left, right = "".join(texts[places[0] : places[-1] + 1]), texts[: places[0]], texts[places[-1] + 1 :]
    if comparison not in _TURNED or not _are_adjacent(tokens, places):
        return None
    if len(left) != 1 or column_of(left[0]) is None:
        left, right, comparison = right, left, _TURNED[comparison]
    column = column_of(left[0]) if len(left) == 1 else None
    kind = None if column is None else fields.get(column)
    if column is None or kind is None:
        return None
    value = _number(right) if kind in _WHOLE_NUMBERS else _text(right) if kind == Types.STRING() else None
    return None if value is None else ColumnCondition(column, comparison, value)


def _are_adjacent(tokens: Sequence[Token], places: Sequence[int]) -> bool:
    return all(tokens[place].start == tokens[places[0]].start + index for index, place in enumerate(places))


def _number(texts: Sequence[str]) -> int | None:
    is_negative = len(texts) == 2 and texts[0] == "-"
    digits = texts[-1] if len(texts) == 1 or is_negative else ""
    if not _DIGITS.fullmatch(digits):
        return None
    return -int(digits) if is_negative else int(digits)


def _text(texts: Sequence[str]) -> str | None:
    if len(texts) != 1 or texts[0][0] != "'":
        return None
    return texts[0][1:-1].replace("''", "'")
