"""Documents as the database can store them, whatever users' code has put into them. Pure.

JSON has no NaN and no infinities: they become text as Java prints them. SQLite and PostgreSQL refuse a row that has
one, every time it is written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from runtime.core.well_formed import well_formed

#: text of a number that JSON does not have → the number
NO_JSON_NUMBERS: Mapping[str, float] = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def storable(value: Any) -> Any:
    """Return a value, or a document, as the database can store it.

    Texts are well-formed, floats that JSON does not have are texts, and what JSON does not have at all is its `str`.
    """
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else _text(value)
        case str():
            return well_formed(value)
        case Mapping():
            return {well_formed(str(key)): storable(part) for key, part in value.items()}
        case list() | tuple():
            return [storable(part) for part in value]
        case _:
            return well_formed(str(value))


def _text(number: float) -> str:
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
