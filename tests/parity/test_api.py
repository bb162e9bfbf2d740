"""The public names are those of docs/api.txt, and every one of them can be reached and is documented.

A public name is one that its module re-exports (`X as X`) or defines without an underscore. To take a change over:

    python tests/parity/test_api.py
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("runtime.common", "runtime.datastream", "runtime.metrics", "runtime.testing")
API = ROOT / "docs" / "api.txt"
HEADER = "# The public names, one a line; made by tests/parity/test_api.py, which compares them.\n"


def public_names(package: str) -> list[str]:
    """Return the package's public names: its re-exports, and its modules with their classes."""
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


def test_star_imports_bring_the_public_names_and_no_modules() -> None:
    wrong = []
    for package in PACKAGES:
        public = public_names(package)
        for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if not found.name.rpartition(".")[2].startswith("_"):
                wrong += _wrong_exports(found.name, public)
        wrong += _wrong_exports(package, public)
    assert wrong == []


def _wrong_exports(module: str, public: list[str]) -> list[str]:
    names: dict[str, object] = {}
    exec(f"from {module} import *", names)
    del names["__builtins__"]
    declared = getattr(importlib.import_module(module), "__all__", None)
    if declared is None:
        return [f"{module} has no __all__"]
    wrong = [f"{module}.{name} is a module" for name, value in names.items() if inspect.ismodule(value)]
    if hasattr(importlib.import_module(module), "__path__"):
        own = {name.rpartition(".")[2] for name in public if name.rpartition(".")[0] == module}
        wrong += [f"{module}.{name} is not in __all__" for name in sorted(own - set(declared))]
    return wrong


def test_a_star_import_leaves_the_modules_of_a_program_alone() -> None:
    names: dict[str, Any] = {}
    exec("import time\nfrom runtime.common import *\nfrom runtime.datastream import *\nnow = time.time()", names)
    assert names["now"] > 0


if __name__ == "__main__":
    API.write_text(listed(), encoding="utf-8")
    print(f"{API.relative_to(ROOT)}: {len(listed().splitlines()) - 1} names")
