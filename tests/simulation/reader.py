"""Reads a sink's visible output while the job runs: rows that it has seen must stay unchanged."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tests.simulation.damage import Output

if TYPE_CHECKING:
    from tests.simulation.world import World

READ_MS = 25.0


class Reader:
    """Looks now and then, and at the end."""

    def __init__(self, world: World) -> None:
        self._world = world
        #: digest of what was read, by file or transaction
        self._seen: dict[str, bytes] = {}
        #: digest of what was given its name, by file
        self._committed: dict[str, bytes] = {}
        self.num_reads = 0
        #: how much was visible at the last look: rows, or bytes
        self.num_visible = 0

    def look(self) -> None:
        """Read all that is visible."""
        visible = self._visible()
        self.num_reads += 1
        self.num_visible = sum(len(content) for content in visible.values())
        for name, content in visible.items():
            digest = _digest(content)
            if self._seen.setdefault(name, digest) != digest:
                self._world.violate(f"aborted read: {name} is not what it was")
        # what was visible and not durable comes back when it is committed again
        if not self._world.disk.num_power_losses:
            self._check_all(visible)

    def look_for_the_last_time(self) -> None:
        """Read once more: now everything has to be there."""
        self.look()
        self._check_all(self._visible())

    def will_appear(self, name: str, content: bytes) -> None:
        """A file is given its name, for the first time or again: with the same content."""
        digest = _digest(content)
        if self._committed.setdefault(name, digest) != digest:
            self._world.violate(f"{name} is committed with another content")

    def rows(self, apart_from: Sequence[Output] = ()) -> list[Any]:
        """Return the visible rows.

        Args:
            apart_from: is left out.
        """
        if not self._world.scenario.writes_files:
            left_out = {transaction for output in apart_from for transaction in output.transactions}
            committed = self._world.database.committed.items()
            return [row for name, rows in committed if name not in left_out for row in rows]
        contents = self._world.disk.visible()
        for output in apart_from:
            contents |= {name: contents[name][:start] for name, start in output.files.items() if name in contents}
        return [_row(line) for content in contents.values() for line in content.splitlines()]

    def _check_all(self, visible: Mapping[str, object]) -> None:
        gone = sorted(self._seen.keys() - visible.keys())
        if gone:
            self._world.violate(f"aborted read: {gone[:3]} are gone")
            for name in gone:
                del self._seen[name]

    def _visible(self) -> Mapping[str, bytes | list[Any]]:
        if self._world.scenario.writes_files:
            return self._world.disk.visible()
        return self._world.database.committed


def _row(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return line.decode(errors="replace"), 0, "", 0, 0


def _digest(content: bytes | list[Any]) -> bytes:
    # rows of a transaction are only ever appended to
    data = content if isinstance(content, bytes) else str(len(content)).encode()
    return hashlib.blake2b(data, digest_size=8).digest()
