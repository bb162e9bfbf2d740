"""The public names are those of docs/api.txt, and every one of them can be reached and is documented.

A public name is one that its module re-exports (`X as X`) or defines without an underscore. To take a change over:

    python tests/parity/test_api.py
"""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("runtime.common", "runtime.datastream", "runtime.metrics", "runtime.testing")
API = ROOT / "docs" / "api.txt"
HEADER = "# The public names, one a line; made by tests/parity/test_api.py, which compares them.\n"


def public_names(package: str) -> list[str]:
    """What the package itself offers: its re-exports, and the modules behind it with their classes."""
    names = []
    for path in sorted((ROOT / package.replace(".", "/")).rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if any(part.startswith("_") for part in module.split(".")):
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom):
                names += [f"{module}.{alias.asname}" for alias in node.names if alias.asname == alias.name]
            elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                names.append(f"{module}.{node.name}")
    return sorted(set(names))


def listed() -> str:
    return HEADER + "".join(f"{name}\n" for package in PACKAGES for name in public_names(package))


def test_the_public_names_are_those_of_api_txt() -> None:
    assert listed().splitlines() == API.read_text(encoding="utf-8").splitlines()


def test_every_public_class_is_there_and_says_what_it_is_for() -> None:
    undocumented = []
    for line in API.read_text(encoding="utf-8").splitlines()[1:]:
        module, _, name = line.rpartition(".")
        found = getattr(importlib.import_module(module), name)
        if inspect.isclass(found) and not inspect.getdoc(found):
            undocumented.append(line)
    assert undocumented == []


if __name__ == "__main__":
    API.write_text(listed(), encoding="utf-8")
    print(f"{API.relative_to(ROOT)}: {len(listed().splitlines()) - 1} names")
