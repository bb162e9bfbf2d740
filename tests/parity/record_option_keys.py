"""Records which former keys Flink's options are still read from, in the order of precedence: flink_former_keys.json.

Not run by the tests. Asks the `ConfigOption` constants of all `*Options` classes in the jars of an installed
apache-flink 2.3.0 by reflection; needs Java 17 on PATH:

    PYTHON_WITH_PYFLINK tests/parity/record_option_keys.py

Imports nothing of the runtime.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyflink
from pyflink.java_gateway import get_gateway

HERE = Path(__file__).resolve().parent
HOME = Path(pyflink.__file__).parent
JARS = ("lib/flink-dist-*.jar", "opt/flink-python-*.jar")


def options_classes() -> Iterator[str]:
    """Full names of the classes that hold options."""
    for pattern in JARS:
        for jar in sorted(HOME.glob(pattern)):
            with zipfile.ZipFile(jar) as archive:
                for name in sorted(archive.namelist()):
                    if name.startswith("org/apache/flink/") and name.endswith("Options.class") and "shaded" not in name:
                        yield name.removesuffix(".class").replace("/", ".")


def constants(jvm: Any, name: str) -> Iterator[Any]:
    """The `ConfigOption` constants of a class."""
    kind = jvm.java.lang.Class.forName(name)
    for field in kind.getDeclaredFields():
        modifiers = field.getModifiers()
        if field.getType().getName() == "org.apache.flink.configuration.ConfigOption" and (
            jvm.java.lang.reflect.Modifier.isStatic(modifiers) and jvm.java.lang.reflect.Modifier.isPublic(modifiers)
        ):
            yield field.get(None)


def main() -> None:
    jvm = get_gateway().jvm
    recorded = {}
    for name in options_classes():
        for option in constants(jvm, name):
            former = [fallback.getKey() for fallback in option.fallbackKeys()]
            if former:
                recorded[option.key()] = former
    golden = HERE / "flink_former_keys.json"
    golden.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{golden.name}: {len(recorded)} options with former keys")


if __name__ == "__main__":
    main()
