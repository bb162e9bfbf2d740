"""Filter of system calls (seccomp): what Landlock does not know, for the calling thread and all that it starts.

Landlock governs contents and names of files. It does not govern their modes, owners, times and attributes, objects that
no file stands for and that outlive whoever made them, memory that no process seems to hold, and limits of other
processes of the same user. A filter sees numbers, not paths, so that it cannot tell a program's own files from others.
Source: seccomp(2), seccomp_unotify(2), the kernel's tables of system calls.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import socket
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_PR_SET_SECCOMP: Final = 22
_MODE_FILTER: Final = 2
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
#: offsets in what the filter is given: number, architecture, then six arguments of 8 bytes, low half first
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_LOAD, _IS_EQUAL, _IS_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
#: of calls with the numbers of x32, which this kernel may know beside its own
_X32: Final = 0x40000000
#: chattr, by number and by structure, and the number of a file's version; no file needs to be open for writing
_ATTRIBUTE_COMMANDS: Final = (0x40086602, 0x40046602, 0x401C5820, 0x40087602, 0x40047602)


@dataclass(frozen=True, slots=True)
class _Table:
    """Numbers of an architecture."""

    audit: int
    """Its number in what the filter is given."""
    pretended: tuple[int, ...]
    """chmod, fchmod, fchmodat, utime, utimes, futimesat, utimensat."""
    refused: tuple[int, ...]
    """chown, fchown, lchown, fchownat, setxattr and removexattr; objects of System V, POSIX message queues, keys."""
    ioctl: int
    of_process: tuple[int, ...]
    """Calls whose first argument is a process: prlimit64, sched_setaffinity, sched_setscheduler, -param, -attr."""
    of_kind: tuple[int, ...]
    """Calls whose second argument is one: setpriority, ioprio_set."""
    memfd_create: int
    socket: int


#: and what lists a machine's own addresses
_INTERNET: Final = (socket.AF_INET, socket.AF_INET6, 16)
#: fchmodat2
_PRETENDED_EVERYWHERE: Final = (452,)
#: setxattrat, removexattrat, file_setattr
_REFUSED_EVERYWHERE: Final = (463, 466, 469)
#: io_uring, which calls in place of its user, without a filter; memfd_secret
_ABSENT_EVERYWHERE: Final = (425, 426, 427, 447)

_TABLES: Final[Mapping[str, _Table]] = {
    "x86_64": _Table(
        audit=0xC000003E,
        pretended=(90, 91, 268, 132, 235, 261, 280),
        refused=(
            *(92, 93, 94, 260, 188, 189, 190, 197, 198, 199),
            *(29, 30, 31, 64, 65, 66, 220, 68, 69, 70, 71, 240, 248, 249, 250),
        ),
        ioctl=16,
        of_process=(302, 203, 144, 142, 314),
        of_kind=(141, 251),
        memfd_create=319,
        socket=41,
    ),
    "aarch64": _Table(
        audit=0xC00000B7,
        pretended=(52, 53, 88),
        refused=(
            *(54, 55, 5, 6, 7, 14, 15, 16),
            *(180, 186, 187, 188, 189, 190, 191, 192, 193, 194, 195, 196, 217, 218, 219),
        ),
        ioctl=29,
        of_process=(261, 122, 119, 118, 274),
        of_kind=(140, 30),
        memfd_create=279,
        socket=198,
    ),
}


def filter_calls(*, has_network: bool) -> bool:
    """Install the filter, for good; return whether this system has one. No new privileges must be granted already.

    Changes of owners, of attributes, of other processes' limits, and objects that outlive the program get EPERM. A
    change of mode or times is answered as if it had been done, but is not: libraries end at an error where they copy
    a file, and what needs the change finds it missing. Files in memory and io_uring get ENOSYS, as on a kernel without
    them, so that libraries take another way; sockets of other kinds than the Internet's get EAFNOSUPPORT: a namespace
    of networks contains neither those that are files, as Docker's, nor those to the host of a virtual machine.

    Args:
        has_network: whether sockets that are files may be connected to. Pairs of sockets are always there.
    """
    if sys.platform != "linux" or sys.byteorder != "little":
        return False
    program = filter_program(platform.machine(), has_network=has_network)
    if program is None:
        return False
    code = ctypes.create_string_buffer(program, len(program))
    # a number of instructions, and a pointer to them
    described = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    return int(libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, described, 0, 0)) == 0


def filter_program(machine: str, *, has_network: bool) -> bytes | None:
    """Return the instructions of the filter, 8 bytes each; None: this architecture has no table here."""
    table = _TABLES.get(machine)
    if table is None:
        return None
    refuse, pretend, absent = (_ERRNO | code for code in (errno.EPERM, 0, errno.ENOSYS))
    steps = [
        _step(_LOAD, _ARCHITECTURE),
        # calls of 32-bit programs have other numbers
        *(_step(_IS_EQUAL, table.audit, 1, 0), _step(_RETURN, refuse)),
        _step(_LOAD, _NUMBER),
        *(_step(_IS_AT_LEAST, _X32, 0, 1), _step(_RETURN, refuse)),
    ]
    for answer, numbers in (
        (pretend, (*table.pretended, *_PRETENDED_EVERYWHERE)),
        (refuse, (*table.refused, *_REFUSED_EVERYWHERE)),
        (absent, (table.memfd_create, *_ABSENT_EVERYWHERE)),
    ):
        for number in numbers:
            steps += [_step(_IS_EQUAL, number, 0, 1), _step(_RETURN, answer)]
    for argument, numbers in ((0, table.of_process), (1, table.of_kind)):
        for number in numbers:
            # 0 is the caller; the kernel, too, reads the low half only
            steps += [
                _step(_IS_EQUAL, number, 0, 4),
                _step(_LOAD, _ARGUMENTS + 8 * argument),
                _step(_IS_EQUAL, 0, 1, 0),
                _step(_RETURN, refuse),
                _step(_RETURN, _ALLOW),
            ]
    families = (*_INTERNET, socket.AF_UNIX) if has_network else _INTERNET
    steps += [_step(_IS_EQUAL, table.socket, 0, 2 * len(families) + 2), _step(_LOAD, _ARGUMENTS)]
    for family in families:
        steps += [_step(_IS_EQUAL, family, 0, 1), _step(_RETURN, _ALLOW)]
    steps.append(_step(_RETURN, _ERRNO | errno.EAFNOSUPPORT))
    steps += [_step(_IS_EQUAL, table.ioctl, 1, 0), _step(_RETURN, _ALLOW), _step(_LOAD, _ARGUMENTS + 8)]
    for command in _ATTRIBUTE_COMMANDS:
        steps += [_step(_IS_EQUAL, command, 0, 1), _step(_RETURN, refuse)]
    steps.append(_step(_RETURN, _ALLOW))
    return b"".join(steps)


def _step(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Return an instruction; a jump skips so many others."""
    return struct.pack("=HBBI", code, if_true, if_false, operand)
