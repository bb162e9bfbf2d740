"""OutputTag: the name and type of a side output. Source: PyFlink, output_tag.py."""

from __future__ import annotations

from runtime.common.typeinfo import TypeInformation


class OutputTag:
    """Names a side output. Two tags are equal if their ids are.

    Args:
        tag_id: non-empty name, unique within one operator.
        type_info: type of the records; None means that they stay Python objects.

    Raises:
        ValueError: the id is empty.
    """

    __slots__ = ("tag_id", "type_info")

    def __init__(self, tag_id: str, type_info: TypeInformation | None = None) -> None:
        if not tag_id:
            raise ValueError("OutputTag: the id must not be empty")
        self.tag_id = tag_id
        self.type_info = type_info

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputTag) and other.tag_id == self.tag_id

    def __hash__(self) -> int:
        return hash(self.tag_id)

    def __repr__(self) -> str:
        return f"OutputTag({self.tag_id!r})"
