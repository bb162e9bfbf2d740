"""Confinement: what the kernel keeps a process of untrusted code from, as far as this kernel and this user can.

`hide_process` protects processes that hold secrets from others of the same user. `confine` is irrevocable, for the
calling thread and all that it starts: call it before there are other threads. Each measure that this system does not
offer is left out, and named in the result: no capabilities and no new privileges · nothing of other processes · files:
reads everywhere but in hidden places, writes in one directory (Landlock) · no network (a namespace of its own, else
Landlock, which knows TCP only) · system calls that Landlock does not govern (`runtime.client.system_calls`) · numbers
and sizes of files and processes. Linux; elsewhere only the limits. Imports nothing else of the engine, so that it is
quick to load. Source: landlock(7), prctl(2), capabilities(7).
"""

from __future__ import annotations

import ctypes
import os
import pwd
import resource
import signal
import stat
import struct
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runtime.client.system_calls import filter_calls

MAX_PROCESSES = 64
"""Of one program, with threads. Defining a job needs a handful."""
MAX_OPEN_FILES = 256
MAX_FILE_BYTES = 256 << 20
"""Limit for any one file that the child writes; it has a temporary directory and no business to fill the disk."""

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP = 1, 4, 24
_PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 36, 38
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_CAPABILITY_VERSION_3 = 0x20080522
#: numbers of the system calls are the same on every architecture that has been added since 2011, and on x86
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_O_PATH = 0o10000000
#: rights on files by the ABI that brought them: the first 13, REFER, TRUNCATE, IOCTL_DEV
_RIGHTS = ((1, (1 << 13) - 1), (2, 1 << 13), (3, 1 << 14), (5, 1 << 15))
_EXECUTE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 2, 1 << 3
_READ = _EXECUTE | _READ_FILE | _READ_DIR
#: of a rule for a file that is not a directory: execute, write, read, truncate, ioctl
_OF_FILES = 0b111 | 1 << 14 | 1 << 15
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/urandom", "/dev/random")
_OF_SYSTEM = ("/", "/etc", "/home", "/opt", "/srv", "/var", "/var/backups", "/var/lib", "/var/log", "/var/spool")
_USUALLY_HIDDEN = ("/proc", "/run/secrets", "/var/run/secrets", "/run/docker.sock", "/dev")


@dataclass(frozen=True, slots=True)
class Confinement:
    """Says what a child may see of this machine beside its own directory."""

    hidden: Sequence[str] = ()
    """Paths that it must not read: homes with keys, databases, other people's state."""
    readable: Sequence[str] = ()
    """Paths that it may read even if they lie in a hidden one."""
    has_network: bool = False


USUAL = Confinement()
"""Nothing that people hide from each other, no network."""


def hide_process() -> None:
    """Keep processes of the same user from reading this one's environment and memory; no effect on root's. Linux."""
    _prctl(_PR_SET_DUMPABLE, 0)


def dot_files() -> list[str]:
    """Return what people keep keys and histories in: of the account's home, and of HOME.

    To be asked before a child gets a HOME of its own.
    """
    homes = {os.environ.get("HOME", "")}
    with suppress(KeyError):
        # an account without an entry has a number only, as in containers
        homes.add(pwd.getpwuid(os.getuid()).pw_dir)
    found: list[str] = []
    for home in sorted(homes):
        if home.startswith("/"):
            with suppress(OSError):
                found += [entry.path for entry in os.scandir(home) if entry.name.startswith(".")]
    return found


def adopt_orphans() -> bool:
    """Have processes whose parent dies become this one's children, if an ancestor was; return whether that works."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent's thread ends.

    Args:
        parent: its process id; if it is another's by now, this process ends at once.
    """
    if _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) and os.getppid() != parent:
        os._exit(1)


def confine(confinement: Confinement, directory: str) -> list[str]:
    """Confine this process; return the names of the measures that this system does not offer.

    Args:
        confinement: what it may see.
        directory: all that it may write to.
    """
    missing: list[str] = []
    _limit_numbers()
    if sys.platform != "linux":
        return ["capabilities", "network", "files", "calls"]
    if not confinement.has_network and not _leave_network():
        missing.append("network")
    if not (_prctl(_PR_SET_NO_NEW_PRIVS, 1) and _drop_capabilities()):
        missing.append("capabilities")
    try:
        _restrict(confinement, directory)
    except OSError:
        missing.append("files")
    if not filter_calls(has_network=confinement.has_network):
        missing.append("calls")
    return missing


def _limit_numbers() -> None:
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, MAX_FILE_BYTES)
    _lower(resource.RLIMIT_NOFILE, MAX_OPEN_FILES)
    if sys.platform == "linux":
        # counts every thread of the user; the kernel exempts root
        _lower(resource.RLIMIT_NPROC, _threads_of_user() + MAX_PROCESSES)


def _lower(what: int, value: int) -> None:
    hard = resource.getrlimit(what)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(what, (value, value))


def _threads_of_user() -> int:
    uid, count = os.getuid(), 0
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            try:
                if entry.stat().st_uid in (uid, 0) and (found := _threads(entry.path, uid)):
                    count += found
            except OSError:
                continue
    return count


def _threads(path: str, uid: int) -> int:
    status = (Path(path) / "status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    return int(fields["Threads"]) if fields["Uid"].split()[0] == str(uid) else 0


# --- Linux ------------------------------------------------------------------------------------------------------------


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> bool:
    return sys.platform == "linux" and int(_libc().prctl(option, value, 0, 0, 0)) == 0


def _leave_network() -> bool:
    """Go where there is no network at all; as a user, that takes a namespace of users, which systems may not allow."""
    libc = _libc()
    if libc.unshare(_CLONE_NEWNET) == 0:
        return True
    uid, gid = os.getuid(), os.getgid()
    if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) != 0:
        return False
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    except OSError:
        # files are still its own; only the numbers that it sees are nobody's
        pass
    return True


def _drop_capabilities() -> bool:
    libc = _libc()
    for capability in range(64):
        # one that this kernel does not know, or none left to drop
        if libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break
    header = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), 8)
    return int(libc.capset(header, ctypes.create_string_buffer(24))) == 0


def _restrict(confinement: Confinement, directory: str) -> None:
    """Apply Landlock.

    Raises:
        OSError: the kernel has none, or it is switched off.
    """
    libc = _libc()
    abi = _call(libc, _CREATE_RULESET, None, 0, 1)
    rights = sum(right for since, right in _RIGHTS if abi >= since)
    # bind and connect; then signals and abstract sockets stay within
    network = 0 if confinement.has_network or abi < 4 else 0b11
    scope = 0b11 if abi >= 6 else 0
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    attributes = struct.pack("=QQQ", rights, network, scope)[:size]
    ruleset = _call(libc, _CREATE_RULESET, attributes, size, 0)
    try:
        for path in _readable(confinement):
            _allow(libc, ruleset, path, _READ & rights)
        for path in _DEVICES:
            _allow(libc, ruleset, path, (_READ | _OF_FILES) & rights)
        _allow(libc, ruleset, f"/proc/{os.getpid()}", _READ & rights)
        _allow(libc, ruleset, directory, rights)
        _call(libc, _RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _readable(confinement: Confinement) -> Iterable[str]:
    """Yield the paths whose trees are readable: all of the machine without what is hidden, then the exceptions."""
    hidden = {os.path.realpath(path) for path in (*_USUALLY_HIDDEN, *_of_root(), *confinement.hidden)}
    within = {str(parent) for path in hidden for parent in Path(path).parents}
    pending = ["/"]
    while pending:
        path = pending.pop()
        if path in hidden:
            continue
        if path not in within:
            yield path
            continue
        try:
            pending += [entry.path for entry in os.scandir(path) if not entry.is_symlink()]
        except OSError:
            continue
    yield from confinement.readable
    yield from (sys.prefix, sys.base_prefix, str(Path(__file__).resolve().parents[1]), "/proc/cpuinfo", "/proc/meminfo")


def _of_root() -> list[str]:
    """Return what only root may read, where this is root: capabilities are gone, but root also owns it.

    Looks through /etc, and in other places of the system into the first level. Root's home is left out, and whatever
    the engine is in, as programs and their data may be there.
    """
    if os.getuid() != 0:
        return []
    own = (Path(__file__).resolve(), Path(sys.prefix).resolve())
    kept = {str(parent) for path in own for parent in (path, *path.parents)}
    with suppress(KeyError):
        kept.add(pwd.getpwuid(0).pw_dir)
    found: list[str] = []
    pending = list(_OF_SYSTEM)
    while pending:
        with suppress(OSError):
            for entry in os.scandir(pending.pop()):
                if entry.is_symlink() or entry.path in kept:
                    continue
                is_directory = entry.is_dir()
                needed = stat.S_IROTH | stat.S_IXOTH if is_directory else stat.S_IROTH
                if entry.stat().st_mode & needed != needed:
                    found.append(entry.path)
                elif is_directory and entry.path.startswith("/etc/"):
                    pending.append(entry.path)
    return found


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    """Add a rule; what is not there needs none."""
    try:
        descriptor = os.open(path, _O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not Path(path).is_dir():
            rights &= _OF_FILES
        _call(libc, _ADD_RULE, ruleset, 1, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)


def _call(libc: ctypes.CDLL, number: int, *arguments: bytes | int | None) -> int:
    result = int(libc.syscall(number, *arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
