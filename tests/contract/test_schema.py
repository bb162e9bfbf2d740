"""JSON Schema of Python types, and TypeScript of JSON Schema."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import pytest

from backend.contract.schema import ContractError, Named, Schemas
from backend.gen.typescript import type_of, typescript

Colour = Annotated[Literal["red", "blue"], Named("Colour", "What it looks like.")]


class Figures(NamedTuple):
    """Numbers of a boat."""

    length: float
    crew: int | None


class Boat(TypedDict):
    """A boat.

    It floats.
    """

    name: str
    """Painted on its bow."""
    colour: Colour
    figures: Figures
    tows: NotRequired[list[Boat | None]]
    crew: dict[Colour, int]
    notes: Any


Dashed = TypedDict("Dashed", {"start-time": int, "it's": NotRequired[str]})


def written(kind: Any) -> str:
    schemas = Schemas()
    schemas.of(kind)
    return typescript({"components": {"schemas": schemas.components}, "paths": {}}).split("*/\n\n", 1)[1]


def test_types_become_interfaces_with_their_descriptions() -> None:
    assert written(Boat).startswith(
        """\
/**
 * A boat.
 *
 * It floats.
 */
export interface Boat {
  /** Painted on its bow. */
  name: string;
  colour: Colour;
  figures: Figures;
  tows?: (Boat | null)[];
  crew: Partial<Record<Colour, number>>;
  notes: unknown;
}

/** What it looks like. */
export type Colour = 'red' | 'blue';

/** Numbers of a boat. */
export type Figures = [length: number, crew: number | null];
"""
    )


def test_names_that_are_no_names_in_typescript_are_quoted() -> None:
    assert "  'start-time': number;\n  'it\\'s'?: string;\n" in written(Dashed)


def test_a_description_cannot_end_its_comment() -> None:
    schema = {"type": "string", "description": "a */ b"}
    assert "a */ b" not in typescript({"components": {"schemas": {"X": schema}}, "paths": {}})


def test_a_type_without_a_schema_is_refused() -> None:
    with pytest.raises(ContractError, match="bytes"):
        Schemas().of(list[bytes])
    with pytest.raises(ValueError, match="no TypeScript"):
        type_of({"type": "tuple"})
