"""Records PyFlink's public names into pyflink_names.json: modules, classes, methods and constants, names only.

Not run by the tests. Reads the source of an installed apache-flink 2.3.0 without importing it, so needs no Java:

    python tests/parity/record_names.py SITE_PACKAGES

Imports nothing of the runtime.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGES = ("pyflink/common", "pyflink/datastream", "pyflink/metrics")


def names_of_class(node: ast.ClassDef) -> dict[str, list[str]]:
    """The public names that a class defines itself, its nested classes under `Outer.Inner`."""
    own: set[str] = set()
    nested: dict[str, list[str]] = {}
    for child in node.body:
        if isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
            nested |= {f"{node.name}.{name}": members for name, members in names_of_class(child).items()}
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            own.add(child.name)
        elif isinstance(child, ast.Assign):
            own.update(target.id for target in child.targets if isinstance(target, ast.Name))
        elif isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name):
            own.add(child.target.id)
    return {node.name: sorted(name for name in own if not name.startswith("_"))} | nested


def exported(tree: ast.Module) -> list[str]:
    """The module's `__all__`."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return sorted(ast.literal_eval(node.value))
    return []


def installed(text: str) -> set[str]:
    """The names that a package is given by `setattr(package, "name", ...)`."""
    return set(re.findall(r"setattr\(\w+, '(\w+)'", text))


def main() -> None:
    root = Path(sys.argv[1])
    recorded: dict[str, dict[str, object]] = {}
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            relative = path.relative_to(root).with_suffix("")
            if "tests" in relative.parts or "examples" in relative.parts:
                continue
            parts = relative.parts[:-1] if relative.name == "__init__" else relative.parts
            if any(part.startswith("_") for part in parts):
                continue
            text = path.read_text(encoding="utf-8")
            tree = ast.parse(text)
            classes: dict[str, list[str]] = {}
            for node in tree.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    classes |= names_of_class(node)
            names = sorted({*exported(tree), *installed(text)} - set(classes))
            if classes or names:
                recorded[".".join(parts)] = {"classes": classes, "names": names}
    target = HERE / "pyflink_names.json"
    target.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    methods = sum(len(members) for module in recorded.values() for members in dict(module["classes"]).values())  # type: ignore[call-overload, misc]
    print(f"{target.name}: {len(recorded)} modules, {methods} members of classes")


if __name__ == "__main__":
    main()
