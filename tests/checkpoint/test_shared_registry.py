from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.checkpoint.shared_registry import SharedFileRegistry
from runtime.core.ids import CheckpointId

ONE, TWO = CheckpointId(1), CheckpointId(2)


def test_a_file_is_free_when_the_last_checkpoint_that_refers_to_it_is_gone() -> None:
    registry = SharedFileRegistry()
    registry.register(ONE, ["a", "b"])
    registry.register(TWO, ["b", "c"])
    assert registry.unregister(ONE) == ["a"]
    assert ("a" in registry, "b" in registry) == (False, True)
    assert registry.unregister(TWO) == ["b", "c"]
    assert len(registry) == 0


def test_a_checkpoint_counts_once_and_one_that_is_unknown_frees_nothing() -> None:
    registry = SharedFileRegistry()
    registry.register(ONE, ["a", "a"])
    with pytest.raises(ValueError, match="registered already"):
        registry.register(ONE, ["a"])
    assert registry.unregister(TWO) == []
    assert registry.unregister(ONE) == ["a"]


@given(st.lists(st.tuples(st.integers(1, 6), st.none() | st.frozensets(st.sampled_from("abcdef"))), max_size=40))
def test_it_agrees_with_a_plain_model(steps: list[tuple[int, frozenset[str] | None]]) -> None:
    registry, model = SharedFileRegistry(), dict[int, frozenset[str]]()
    for number, files in steps:
        if files is None:
            gone = model.pop(number, frozenset())
            assert registry.unregister(CheckpointId(number)) == sorted(gone - frozenset().union(*model.values()))
        elif number not in model:
            registry.register(CheckpointId(number), files)
            model[number] = files
        assert all((uri in registry) == any(uri in known for known in model.values()) for uri in "abcdef")
