"""The filter of system calls on both architectures, by a reading of its instructions as the kernel reads them."""

from __future__ import annotations

import errno
import struct

import pytest

from runtime.client.system_calls import filter_program

X86_64, AARCH64, I386 = 0xC000003E, 0xC00000B7, 0x40000003
ALLOWED, PRETENDED, REFUSED, ABSENT = 0x7FFF0000, 0x50000, 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS


def answer_to(machine: str, audit: int, number: int, *arguments: int, has_network: bool = False) -> int:
    program = filter_program(machine, has_network=has_network)
    assert program is not None
    steps = list(struct.iter_unpack("=HBBI", program))
    data = struct.pack("<IIQ6Q", number, audit, 0, *arguments, *[0] * (6 - len(arguments)))
    at = held = 0
    while True:
        code, if_true, if_false, operand = steps[at]
        at += 1
        if code == 0x06:
            return int(operand)
        if code == 0x20:
            held = struct.unpack_from("<I", data, operand)[0]
        else:
            assert code in (0x15, 0x35)
            at += if_true if (held == operand if code == 0x15 else held >= operand) else if_false


@pytest.mark.parametrize(
    ("machine", "audit", "numbers"),
    [
        # fchmod, fchown, setxattr, shmget, semget, msgget, memfd_create, read, prlimit64, setpriority, ioctl
        ("x86_64", X86_64, (91, 93, 188, 29, 64, 68, 319, 0, 302, 141, 16)),
        ("aarch64", AARCH64, (52, 55, 5, 194, 190, 186, 279, 63, 261, 140, 29)),
    ],
)
def test_calls_are_answered_by_what_they_would_change(machine: str, audit: int, numbers: tuple[int, ...]) -> None:
    fchmod, fchown, setxattr, shmget, semget, msgget, memfd_create, read, prlimit, setpriority, ioctl = numbers
    assert answer_to(machine, audit, fchmod) == PRETENDED
    assert {answer_to(machine, audit, number) for number in (fchown, setxattr, shmget, semget, msgget)} == {REFUSED}
    assert {answer_to(machine, audit, number) for number in (memfd_create, 425)} == {ABSENT}
    assert answer_to(machine, audit, read, 3) == ALLOWED
    # of itself, of another; the upper half of a process's number means nothing
    assert [answer_to(machine, audit, prlimit, pid) for pid in (0, 7, 1 << 32)] == [ALLOWED, REFUSED, ALLOWED]
    assert [answer_to(machine, audit, setpriority, 0, who) for who in (0, 7)] == [ALLOWED, REFUSED]
    # FIONREAD, FS_IOC_SETFLAGS
    assert [answer_to(machine, audit, ioctl, 3, command) for command in (0x541B, 0x40086602)] == [ALLOWED, REFUSED]


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_calls_of_32_bit_programs_are_refused(machine: str) -> None:
    # exit of i386, whose number is another call elsewhere
    assert answer_to(machine, I386, 1) == REFUSED


def test_calls_of_x32_are_refused() -> None:
    assert answer_to("x86_64", X86_64, 0x40000000 | 90) == REFUSED


def test_an_architecture_without_a_table_has_no_filter() -> None:
    assert filter_program("riscv64", has_network=True) is None


@pytest.mark.parametrize(("machine", "audit", "number"), [("x86_64", X86_64, 41), ("aarch64", AARCH64, 198)])
def test_sockets_that_are_files_are_there_with_a_network_only(machine: str, audit: int, number: int) -> None:
    none = 0x50000 | errno.EAFNOSUPPORT
    # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_ALG, AF_VSOCK
    families = (1, 2, 10, 16, 38, 40)
    assert [answer_to(machine, audit, number, family) for family in families] == [none, *[ALLOWED] * 3, none, none]
    assert [answer_to(machine, audit, number, family, has_network=True) for family in families] == [
        *[ALLOWED] * 4,
        none,
        none,
    ]
