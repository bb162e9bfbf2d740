"""SharedFileRegistry: tracks which completed checkpoints refer to which shared files. Pure.

A file may be deleted when the last checkpoint that refers to it is gone. Source: Flink, SharedStateRegistry.
"""

from __future__ import annotations

from collections.abc import Iterable

from runtime.core.ids import CheckpointId


class SharedFileRegistry:
    """Counts references to files, by URI."""

    def __init__(self) -> None:
        self._files: dict[CheckpointId, frozenset[str]] = {}
        self._counts: dict[str, int] = {}

    def register(self, checkpoint_id: CheckpointId, uris: Iterable[str]) -> None:
        """Register a checkpoint that refers to these files; once per checkpoint.

        Raises:
            ValueError: it is registered already.
        """
        if checkpoint_id in self._files:
            raise ValueError(f"checkpoint {checkpoint_id} is registered already")
        files = frozenset(uris)
        self._files[checkpoint_id] = files
        for uri in files:
            self._counts[uri] = self._counts.get(uri, 0) + 1

    def unregister(self, checkpoint_id: CheckpointId) -> list[str]:
        """Unregister a deleted checkpoint; one that was never registered is no error.

        Returns:
            The files to which nothing refers any more, sorted.
        """
        free = []
        for uri in sorted(self._files.pop(checkpoint_id, frozenset())):
            self._counts[uri] -= 1
            if self._counts[uri] == 0:
                del self._counts[uri]
                free.append(uri)
        return free

    def only_of(self, checkpoint_id: CheckpointId) -> list[str]:
        """Return the files to which only this checkpoint refers, sorted: the result that `unregister` would have."""
        return sorted(uri for uri in self._files.get(checkpoint_id, frozenset()) if self._counts[uri] == 1)

    def __contains__(self, uri: str) -> bool:
        return uri in self._counts

    def __len__(self) -> int:
        return len(self._counts)
