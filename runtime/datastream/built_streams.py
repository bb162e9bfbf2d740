"""BuiltStreams: what a function that builds a part of a pipeline has returned, checked against what it declares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runtime.common.typeinfo import TypeInformation
from runtime.datastream.data_stream import DataStream

__all__ = ["BuiltStreams"]


class BuiltStreams:
    """The streams of a function, by the names of its outputs.

    Args:
        returned: a stream where there is one output, a tuple or list of streams in the order of the outputs where there
            are more, None where there are none.
        names: of the outputs.

    Raises:
        TypeError: the function has returned something else.
    """

    def __init__(self, returned: Any, names: Sequence[str]) -> None:
        streams = _as_list(returned)
        wrong = next((type(stream).__name__ for stream in streams if not isinstance(stream, DataStream)), None)
        if wrong is not None or len(streams) != len(names):
            found = f"a {wrong}" if wrong is not None else f"{len(streams)} streams"
            raise TypeError(f"the function has to return {_wanted(names)}, and has returned {found}")
        self._streams: dict[str, DataStream] = dict(zip(names, streams, strict=True))

    def output(self, name: str, type_info: TypeInformation) -> DataStream:
        """Return the stream of an output.

        Args:
            name: of the output.
            type_info: that its records are declared to be of.

        Raises:
            TypeError: they are of another one.
        """
        stream = self._streams[name]
        if stream.get_type() is None:
            raise TypeError(
                f"the records of the output {name!r} are Python objects: give the last operator the output type "
                f"{type_info}"
            )
        if stream.get_type() != type_info:
            raise TypeError(f"the records of the output {name!r} are {stream.get_type()}, not {type_info} as declared")
        return stream


def _as_list(returned: Any) -> list[Any]:
    if returned is None:
        return []
    return list(returned) if isinstance(returned, tuple | list) else [returned]


def _wanted(names: Sequence[str]) -> str:
    if not names:
        return "nothing"
    return f"the stream {names[0]!r}" if len(names) == 1 else f"{len(names)} streams: {', '.join(names)}"
