"""From Python requirements to an archive of their packages: pip resolves and unpacks wheels in a process of its own.

Wheels only, so that no code of a package runs here. What is installed beside the engine counts as installed, in these
very versions: a job brings what is missing, and replaces nothing. pip asks the index that its own variables and files
of this machine name (PIP_INDEX_URL, PIP_FIND_LINKS, PIP_NO_INDEX, pip.conf). Blocks as long as pip does; any thread.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import resource
import subprocess
import sys
import time
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.tags import sys_tags
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

RESOLVE_S: Final = 300.0
"""Time for all that pip does. Shorter: large wheels do not come; longer: clients have given up."""
MAX_BYTES: Final = 2 << 30
"""Size of unpacked packages, and of their wheels. Less: numerical libraries do not fit; more: each machine of slots
unpacks it."""
MAX_FILES: Final = 200_000
"""Of unpacked packages and wheels. Less: large sets of packages do not fit; more: the disk runs out of inodes."""
LOOK_S: Final = 0.1
"""Interval of measuring what pip has written. Longer: what it downloads gets further; shorter: it costs more."""
MAX_MEMORY_BYTES: Final = 4 << 30
"""Address space of pip, which reads the metadata of a wheel at once."""
#: variables of this process that pip sees, beside its own
_INHERITED: Final = re.compile(
    r"PATH|LANG|LC_ALL|HOME|TMPDIR|SSL_CERT_(?:FILE|DIR)|(?:https?|all|no)_proxy|PIP_\w+|XDG_CONFIG_(?:HOME|DIRS)", re.I
)
_OWN_MODULES: Final = frozenset({"runtime", "backend", "examples", "manage"})
_UNREACHABLE: Final = re.compile(
    r"NewConnectionError|Max retries exceeded|ConnectTimeout|ReadTimeout|NameResolutionError|Temporary failure|"
    r"Connection (?:refused|reset|broken)|SSLError|ProxyError|Could not fetch URL"
)
_TOO_LARGE: Final = re.compile(r"\[Errno 27\]|File too large|MemoryError")
_FULL: Final = re.compile(r"No space left on device|Disk quota exceeded")
_TIMESTAMP: Final = (1980, 1, 1, 0, 0, 0)


class RequirementsRefusedError(Exception):
    """The packages cannot be had, or not beside the engine's; the message is for the user."""


class IndexUnreachableError(Exception):
    """The index of packages does not answer; the message is for the user."""


def installed() -> dict[str, str]:
    """Return name → version of what is installed beside the engine, names normalized."""
    found: dict[str, str] = {}
    for distribution in metadata.distributions():
        name, version = distribution.metadata["Name"], distribution.version
        try:
            Version(version)
        except (InvalidVersion, TypeError):
            continue
        if name:
            # the first on the path is the one that is imported
            found.setdefault(canonicalize_name(name), version)
    return found


def key_of(requirements: Sequence[str], pins: Mapping[str, str]) -> str:
    """Return the sha256, hex, of all that decides what requirements resolve to here, but for the time."""
    asked = [list(requirements), sorted(pins.items()), str(next(iter(sys_tags())))]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


def resolve(requirements: Sequence[str], pins: Mapping[str, str], directory: Path) -> tuple[Path, list[str]]:
    """Return an archive with the packages that requirements need beside the pinned ones, and their names and versions.

    Args:
        requirements: as `parse_requirements` returns them.
        pins: see `installed`.
        directory: an empty one, for all that is written.

    Raises:
        RequirementsRefusedError: there is no such wheel, packages contradict each other or the pins, or are too large.
        IndexUnreachableError: the index does not answer, or takes too long.
        OSError: the disk is full.
    """
    _check_pins(requirements, pins)
    report, wheels, site = directory / "report.json", directory / "wheels", directory / "site"
    constraints, wanted, locked = (directory / f"{name}.txt" for name in ("constraints", "wanted", "locked"))
    constraints.write_text("".join(f"{name}=={version}\n" for name, version in sorted(pins.items())))
    wanted.write_text("".join(f"{requirement}\n" for requirement in requirements))
    asked = ("--constraint", str(constraints), "--requirement", str(wanted))
    _pip(directory, "install", "--dry-run", "--report", str(report), *asked)
    lines, packages = _locked(json.loads(report.read_text()), pins)
    site.mkdir()
    if lines:
        locked.write_text("".join(f"{line}\n" for line in lines))
        chosen = ("--no-deps", "--require-hashes", "--requirement", str(locked))
        _pip(directory, "download", "--dest", str(wheels), *chosen)
        _check_sizes(wheels, packages)
        options = ("--ignore-installed", "--no-compile", "--target", str(site))
        _pip(directory, "install", "--no-index", "--find-links", str(wheels), *options, *chosen)
    _check_modules(site, packages)
    return _archive(site, directory / "environment.zip"), packages


def _check_pins(requirements: Sequence[str], pins: Mapping[str, str]) -> None:
    for text in requirements:
        requirement = Requirement(text)
        version = pins.get(requirement.name)
        applies = requirement.marker is None or requirement.marker.evaluate()
        if version is not None and applies and not requirement.specifier.contains(version, prereleases=True):
            raise RequirementsRefusedError(
                f"{text} does not fit: the engine runs on {requirement.name} {version}, which a job cannot replace."
            )


def _locked(report: Mapping[str, Any], pins: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the lines that install exactly what pip has resolved, and the packages in words."""
    lines, packages = [], []
    for item in report["install"]:
        name, version = canonicalize_name(item["metadata"]["name"]), item["metadata"]["version"]
        if name in pins:
            # it would be installed anew; the constraint has seen to the version
            continue
        hashes = item["download_info"].get("archive_info", {}).get("hashes", {})
        if "sha256" not in hashes:
            raise RequirementsRefusedError(f"The index tells no sha256 of {name} {version}.")
        lines.append(f"{name}=={version} --hash=sha256:{hashes['sha256']}")
        packages.append(f"{name}=={version}")
    return lines, sorted(packages)


def _check_sizes(wheels: Path, packages: Sequence[str]) -> None:
    """Refuse wheels that unpack to too much, by what they say of themselves: a reader takes no more of a member."""
    number = size = 0
    for path in sorted(wheels.iterdir()):
        try:
            with zipfile.ZipFile(path) as wheel:
                members = wheel.infolist()
        except (zipfile.BadZipFile, NotImplementedError) as error:
            raise RequirementsRefusedError(f"{path.name} is no wheel: {error}") from error
        number += len(members)
        size += sum(member.file_size for member in members)
    _check_size(number, size, packages)


def _check_size(number: int, size: int, packages: Sequence[str]) -> None:
    if size > MAX_BYTES or number > MAX_FILES:
        raise RequirementsRefusedError(
            f"The Python packages take {size >> 20} MiB and {number} files unpacked, and at most {MAX_BYTES >> 20} MiB "
            f"and {MAX_FILES} files are taken: " + ", ".join(packages)
        )


def _pip(directory: Path, command: str, *arguments: str) -> None:
    words = [sys.executable, "-I", "-m", "pip", command, "--only-binary=:all:", "--no-input", "--no-cache-dir"]
    words += ["--disable-pip-version-check", "--no-color", "--retries=1", "--timeout=15", *arguments]
    environment = {name: value for name, value in os.environ.items() if _INHERITED.fullmatch(name)}
    with subprocess.Popen(
        words,
        cwd=directory,
        env={**environment, "TMPDIR": str(directory), "PIP_ROOT_USER_ACTION": "ignore"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        try:
            _limit(process.pid)
            output = _watch(process, directory)
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise _failure(output)


def _limit(pid: int) -> None:
    """Set limits of pip's process; Linux, elsewhere the watch has to do. It takes longer than that to begin."""
    if sys.platform == "linux":
        # it may have ended already
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (MAX_BYTES, MAX_BYTES))
            resource.prlimit(pid, resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))


def _watch(process: subprocess.Popen[str], directory: Path) -> str:
    """Return what pip has printed, when it has ended.

    Raises:
        RequirementsRefusedError: it writes too much.
        IndexUnreachableError: it takes too long.
    """
    until_s = time.monotonic() + RESOLVE_S
    pause_s = LOOK_S
    while True:
        try:
            return process.communicate(timeout=pause_s)[0]
        except subprocess.TimeoutExpired:
            began_s = time.monotonic()
            if began_s >= until_s:
                raise IndexUnreachableError(
                    f"The Python packages were not there after {RESOLVE_S:g} s; try again."
                ) from None
            if _is_too_large(directory):
                raise _too_large() from None
            # measuring many files takes a fifth of the time at most
            pause_s = max(LOOK_S, 4 * (time.monotonic() - began_s))


def _is_too_large(directory: Path) -> bool:
    """Return whether wheels, or what is unpacked, take more than `MAX_BYTES`, or are too many files."""
    number, sizes = 0, {True: 0, False: 0}
    for root, _, names in os.walk(directory):
        number += 1 + len(names)
        for name in names:
            # it may have been moved meanwhile
            with suppress(OSError):
                sizes[name.endswith(".whl")] += (Path(root) / name).lstat().st_size
    return number > MAX_FILES or max(sizes.values()) > MAX_BYTES


def _too_large() -> RequirementsRefusedError:
    return RequirementsRefusedError(
        f"The Python packages, or their wheels, are too large: at most {MAX_BYTES >> 20} MiB and {MAX_FILES} files are "
        "taken, with all that they need."
    )


def _failure(output: str) -> Exception:
    """Return what pip's failure means."""
    if _FULL.search(output):
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if _TOO_LARGE.search(output):
        return _too_large()
    told = [line.removeprefix("ERROR: ").strip() for line in output.splitlines() if line.startswith("ERROR: ")]
    if _UNREACHABLE.search(output):
        return IndexUnreachableError(
            "The index of Python packages does not answer, so nothing was submitted; try again."
        )
    if "ResolutionImpossible" in output:
        causes = [line.strip() for line in output.splitlines() if "depends on" in line or "The user requested" in line]
        return RequirementsRefusedError(
            "The Python requirements contradict each other, or what the engine runs on (constraint):\n"
            + "\n".join(causes[:20])
        )
    if "No matching distribution" in output:
        text = next((line for line in told if "No matching distribution" in line), "")
        tag = f"Python {sys.version_info.major}.{sys.version_info.minor} on this platform"
        return RequirementsRefusedError(
            f"{text}: the index has no such version with a wheel for {tag}, and nothing is built here.\n"
            + "\n".join(line for line in told if line != text)
        )
    return RequirementsRefusedError(
        "pip cannot have these Python packages:\n" + "\n".join(told[-5:] or [output[-500:]])
    )


def _check_modules(site: Path, packages: Sequence[str]) -> None:
    """Refuse packages that are too large, or bring modules that the engine has.

    They would be looked for behind the engine's, so that nobody would find them.
    """
    sizes = [path.lstat().st_size for path in site.rglob("*") if not path.is_dir()]
    _check_size(len(sizes), sum(sizes), packages)
    taken = sys.stdlib_module_names | _OWN_MODULES | metadata.packages_distributions().keys()
    for entry in sorted(site.iterdir()):
        name = entry.name.partition(".")[0]
        # directories without that file are shared by several distributions
        is_module = entry.suffix in (".py", ".so", ".pyd") or (entry / "__init__.py").exists()
        if is_module and name in taken:
            raise RequirementsRefusedError(
                f"One of {', '.join(packages)} brings a module {name}, which the engine has: a job cannot replace it."
            )


def _archive(site: Path, target: Path) -> Path:
    """Pack a directory; the same content gives the same archive."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in sorted(site.rglob("*")):
            name = path.relative_to(site).as_posix()
            if path.is_file() and not path.is_symlink() and not name.startswith("bin/"):
                entry = zipfile.ZipInfo(name, _TIMESTAMP)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o600 << 16
                with path.open("rb") as source, archive.open(entry, "w", force_zip64=True) as packed:
                    while piece := source.read(1 << 20):
                        packed.write(piece)
    return target
