"""Every operator of the engine is taken through snapshot → restore at 1 → 2 → 1 → continue, and none is left out."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import runtime.operators
from runtime.operators.operator import StreamOperator
from runtime.state.snapshot import OperatorSnapshot
from tests.testing.rescaling_cases import CASES, STATELESS


def concrete_operators() -> set[type[StreamOperator]]:
    """All operator classes of runtime.operators that can be made."""
    for module in pkgutil.walk_packages(runtime.operators.__path__, "runtime.operators."):
        importlib.import_module(module.name)
    found: set[type[StreamOperator]] = set()
    open_classes: list[type[StreamOperator]] = [StreamOperator]  # type: ignore[type-abstract]
    while open_classes:
        for operator in open_classes.pop().__subclasses__():
            if operator.__module__.startswith("runtime.operators."):
                open_classes.append(operator)
                if not inspect.isabstract(operator):
                    found.add(operator)
    return found


def test_every_operator_has_a_case() -> None:
    without = sorted(f"{operator.__module__}.{operator.__name__}" for operator in concrete_operators() - CASES.keys())
    assert not without, f"no rescaling case in tests/testing/rescaling_cases.py for {', '.join(without)}"


def test_every_case_is_of_an_operator_that_exists() -> None:
    assert set(CASES) <= concrete_operators()


@pytest.mark.parametrize("operator", CASES, ids=lambda operator: operator.__name__)
def test_state_survives_rescaling(operator: type[StreamOperator], tmp_path: Path) -> None:
    CASES[operator](tmp_path)


@pytest.mark.parametrize(
    "operator", [op for op in CASES if op not in STATELESS], ids=lambda operator: operator.__name__
)
def test_a_case_notices_that_state_is_lost(
    operator: type[StreamOperator], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator, "snapshot_state", lambda self, *request: OperatorSnapshot())
    with pytest.raises(AssertionError):
        CASES[operator](tmp_path)
