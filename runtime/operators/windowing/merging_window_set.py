"""MergingWindowSet: the open windows of a key, and where the contents of each are.

When windows merge, their contents are merged into the state of the earliest of them; the merged window keeps that
state, whatever it then spans. So the namespace of a window's state may be another window. Pure: it says what has to be
merged. Source: Flink, MergingWindowSet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from runtime.operators.windowing.assigners import MergingWindowAssigner
from runtime.operators.windowing.session_windows import SessionWindows
from runtime.operators.windowing.windows import Namespace, Window, WindowSerializer

Merged = list[tuple[Namespace, list[Namespace]]]
"""Pairs of a merged window and the windows that it is made of."""


@dataclass(frozen=True, slots=True)
class Merge:
    """Result of adding a window that merges others."""

    result: Namespace
    merged: list[Namespace]
    """Windows that are gone; without the one just added, unless it existed before."""
    state: Namespace
    """Namespace of the result's contents."""
    merged_states: list[Namespace]
    """Namespaces of contents that belong there."""


@dataclass(slots=True)
class MergingWindowSet:
    """The open windows of one key.

    Args:
        find_merges: what becomes one of a list of windows; see `merge_finder`.
        windows: each open window, and where its contents are.
    """

    find_merges: Callable[[Iterable[Namespace], Namespace], Merged]
    windows: dict[Namespace, Namespace] = field(default_factory=dict)

    def add_window(self, new: Namespace) -> tuple[Namespace, list[Merge]]:
        """Add a window.

        Returns:
            The window that now contains it, and what has been merged.
        """
        windows = self.windows
        if new in windows:
            return new, []
        actual = new
        merges: list[Merge] = []
        for result, parts in self.find_merges(windows, new):
            if new in parts:
                actual = result
            merged = [part for part in parts if part in windows]
            states = [windows.pop(part) for part in merged]
            if not states:
                continue
            windows[result] = state = states[0]
            merged = [part for part in merged if part != result]
            if merged:
                merges.append(Merge(result, merged, state, states[1:]))
        windows.setdefault(actual, actual)
        return actual, merges


def has_touching_windows(assigner: Any) -> bool:
    """Return whether the assigner's windows merge as sessions do: just those that overlap or touch."""
    # overriding merge_windows() makes a session something else
    return getattr(type(assigner), "merge_windows", None) is SessionWindows.merge_windows


def merge_finder(
    assigner: MergingWindowAssigner[Any, Any], serializer: WindowSerializer[Any]
) -> Callable[[Iterable[Namespace], Namespace], Merged]:
    """Return how the windows of `assigner` merge: a function of (open windows, new window).

    Its result lists the windows that merge in their order.
    """
    if has_touching_windows(assigner):
        return _touching_windows

    def find(windows: Iterable[Namespace], new: Namespace) -> Merged:
        collector = _MergeCollector()
        assigner.merge_windows([serializer.from_namespace(window) for window in (*windows, new)], collector)
        return [
            (serializer.to_namespace(result), sorted(serializer.to_namespace(part) for part in parts))
            for result, parts in collector.merges
        ]

    return find


class _MergeCollector:
    def __init__(self) -> None:
        self.merges: list[tuple[Window, list[Window]]] = []

    def merge(self, to_be_merged: Iterable[Window], merge_result: Window) -> None:
        self.merges.append((merge_result, list(to_be_merged)))


def _touching_windows(windows: Iterable[Any], new: Any) -> Merged:
    """Merge the new window with those that it touches; open sessions never touch each other."""
    start, end = new
    touching = [window for window in windows if window[0] <= end and window[1] >= start]
    if not touching:
        return []
    touching.append(new)
    touching.sort()
    return [((touching[0][0], max(window[1] for window in touching)), touching)]
