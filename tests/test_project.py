"""The project keeps its own promises: commands that exist, imports that go down, documents without dead links."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import runtime

ROOT = Path(__file__).resolve().parent.parent
TEXT_SUFFIXES = {".py", ".md", ".toml", ".txt", ".sh", ".json", ".yml", ".cfg"}
SKIPPED = {".git", ".venv", ".tidemark", ".tools", "build", "node_modules"}
PACKAGES = ("runtime", "examples", "benchmarks")


def project_files() -> list[Path]:
    """Every text file of the project that a clone would have, or that is about to be committed."""
    found = []
    for directory, subdirectories, names in os.walk(ROOT):
        subdirectories[:] = [name for name in subdirectories if name not in SKIPPED and not name.endswith("_cache")]
        found += [Path(directory, name) for name in names]
    return [path for path in found if path.suffix in TEXT_SUFFIXES or path.name in ("Makefile", "run")]


def python_files() -> list[Path]:
    return [path for path in project_files() if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in PACKAGES]


def makefile_targets() -> set[str]:
    return set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def documents() -> list[Path]:
    return [path for path in project_files() if path.suffix == ".md"]


def test_every_make_command_that_a_document_names_exists() -> None:
    named = {
        (path.name, target)
        for path in documents()
        for target in re.findall(r"`make ([a-z0-9-]+)", path.read_text(encoding="utf-8"))
    }
    assert named
    assert {target for _, target in named} <= makefile_targets()


def test_every_script_that_the_readme_runs_exists() -> None:
    scripts = re.findall(r"python (\S+\.py)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert all((ROOT / script).exists() for script in scripts if script != "my_job.py")


def test_every_test_that_the_page_about_security_names_exists() -> None:
    file, missing = ROOT, []
    for name in re.findall(
        r"`((?:tests/|test_|::)[\w/.:]+)`", (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    ):
        path, _, test = name.partition("::")
        # without a directory it is beside the one before, without a file in the same one
        file = file if not path else ROOT / path if path.startswith("tests/") else file.parent / path
        if not file.exists() or (test and f"def {test}(" not in file.read_text(encoding="utf-8")):
            missing.append(name)
    assert not missing


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text(encoding="utf-8"))
    generated = {"docs/performance.md"}
    for link in links:
        if "://" not in link:
            target = (document.parent / link).resolve()
            assert target.exists() or str(target.relative_to(ROOT)) in generated, f"{document.name}: {link}"


def test_every_picture_is_made_by_make_screenshots_and_shown_somewhere() -> None:
    maker = (ROOT / "tests" / "e2e" / "screenshots.py").read_text(encoding="utf-8")
    made = set(re.findall(r'^    "([a-z-]+)": \(', maker, re.MULTILINE))
    texts = "".join(document.read_text(encoding="utf-8") for document in documents())
    shown = set(re.findall(r"!\[[^\]]+\]\((?:docs/)?images/([a-z-]+)\.png\)", texts))
    assert made == shown == {path.stem for path in (ROOT / "docs" / "images").iterdir()}


def test_no_file_names_a_path_of_one_machine() -> None:
    machine_path = re.compile(r"(?<![\w./-])/(?:root|work|home/\w+)(?:/|\b)")
    guilty = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in project_files()
        if path != Path(__file__)
        for match in machine_path.finditer(path.read_text(encoding="utf-8"))
    ]
    assert not guilty


def test_no_file_holds_a_to_do() -> None:
    mark = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
    assert not [path for path in project_files() if mark.search(path.read_text(encoding="utf-8"))]


def test_every_module_says_what_it_owns() -> None:
    undocumented = []
    for path in python_files():
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        if docstring is None or len(docstring) < 20:
            undocumented.append(str(path.relative_to(ROOT)))
    assert not undocumented


def test_every_module_that_says_it_is_pure_is_held_to_it() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    [held] = [set(contract["source_modules"]) for contract in contracts if contract["id"] == "pure"]
    says_so, missing = 0, []
    for path in (path for package in ("runtime", "backend") for path in (ROOT / package).rglob("*.py")):
        documentation = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        if re.search(r"\bPure[.;](\s|$)", documentation):
            says_so += 1
            module = path.relative_to(ROOT).with_suffix("")
            packages = [".".join(part.parts) for part in (module, *module.parents)]
            if held.isdisjoint(packages):
                missing.append(packages[0])
    assert says_so > 50 and not missing


def test_the_commands_of_ci_reach_the_page_and_the_tests() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    scripts = json.loads((ROOT / "frontend/package.json").read_text(encoding="utf-8"))["scripts"]
    runs = {
        target: re.findall(rf"^{target}:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE) for target in makefile_targets()
    }
    assert "lint-page" in runs["lint"][0] and "scripts/frontend.sh lint" in runs["lint-page"][0]
    assert "scripts/frontend.sh test" in runs["test"][0]
    assert "eslint" in scripts["lint"] and "tsc" in scripts["lint"] and "vitest" in scripts["test"]
    mypy = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]
    assert "lint-python" in runs["lint"][0] and "mypy" in runs["lint-python"][0]
    assert mypy["strict"] and "tests" in mypy["files"]
    assert [line for line in (ROOT / ".ci/run").read_text().splitlines() if line.startswith("make ")] == [
        "make lint",
        "make test",
        "make smoke",
    ]


def test_no_function_imports() -> None:
    guilty = []
    for path in python_files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                inner = [child for child in ast.walk(node) if isinstance(child, ast.Import | ast.ImportFrom)]
                guilty += [f"{path.relative_to(ROOT)}:{child.lineno}" for child in inner]
    assert not guilty


def test_requirements_are_pinned_to_exact_versions() -> None:
    for name in ("requirements.txt", "requirements-dev.txt"):
        for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
            if line and not line.startswith(("#", "-r ")):
                assert re.fullmatch(r"[\w.-]+==[\w.]+", line), f"{name}: {line}"


def test_the_changelog_has_an_entry_for_this_version() -> None:
    assert f"## {runtime.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def run_setup(directory: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run setup.sh in a tree of its own that has nothing else; it must fail before it makes anything."""
    (directory / "scripts").mkdir()
    script = shutil.copy(ROOT / "scripts" / "setup.sh", directory / "scripts")
    return subprocess.run(
        ["sh", script], env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=30
    )


def test_setup_says_in_one_line_that_there_is_no_python(tmp_path: Path) -> None:
    result = run_setup(tmp_path, PYTHON=str(tmp_path / "nowhere" / "python3"))
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert "Python 3.11 or newer" in result.stderr


def test_setup_says_in_one_line_that_java_home_is_wrong(tmp_path: Path) -> None:
    result = run_setup(tmp_path, PYTHON=sys.executable, JAVA_HOME=str(tmp_path))
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert str(tmp_path) in result.stderr
    assert not (tmp_path / ".venv").exists()
