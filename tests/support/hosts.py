"""Hosts on this machine: each has a name and a network with one address of its own; a router joins them.

A host is a set of Linux namespaces (network, name, mounts) which a process holds; the files and the clock are the
machine's. Hosts know each other by name, and loopback addresses of one lead nowhere from another. The router forwards
between them; once it does not, packets vanish without an answer, as in a network that was cut.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import psutil

from tests.support.waiting import wait_until

NAMESPACES = ("--net", "--uts", "--mount")
ROUTER = "router"
_CLONE_NEWNET = 0x40000000


def why_no_hosts() -> str | None:
    """Return why this machine does not let the process make hosts; None if it does."""
    try:
        done = subprocess.run(("unshare", *NAMESPACES, "ip", "link", "add", "type", "veth"), capture_output=True)
    except OSError as error:
        return f"hosts need unshare and ip (util-linux, iproute2): {error}"
    return None if done.returncode == 0 else f"namespaces are not allowed: {done.stderr.decode().strip()}"


class Host:
    """Host that exists for as long as the process that holds it.

    Args:
        name: as other hosts call it.
        address: IPv4.
        hosts_file: its /etc/hosts.
    """

    def __init__(self, name: str, address: str, hosts_file: Path) -> None:
        self.name = name
        self.address = address
        setup = f"hostname {name}; mount --bind {hosts_file} /etc/hosts; ip link set lo up; exec sleep infinity"
        self._holder = subprocess.Popen(("unshare", *NAMESPACES, "sh", "-ec", setup), start_new_session=True)
        self.pid = self._holder.pid
        wait_until(self._is_set_up, 10, f"host {name}")

    def start(
        self, command: Sequence[str], directory: Path, environment: Mapping[str, str], log: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        """Start a process on this host, as a process group of its own."""
        return subprocess.Popen(
            # a mount namespace is entered at its root
            self._inside("env", f"--chdir={directory}", *command),
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def run(self, *command: str) -> None:
        """Run a command of the machine's root on this host.

        Raises:
            CalledProcessError: it fails.
        """
        subprocess.run(self._inside(*command), check=True, capture_output=True)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Let this thread, and what it starts, use the network of this host instead of the machine's."""
        libc = ctypes.CDLL(None, use_errno=True)
        with Path("/proc/thread-self/ns/net").open() as before, Path(f"/proc/{self.pid}/ns/net").open() as own:
            _check(libc.setns(own.fileno(), _CLONE_NEWNET))
            try:
                yield
            finally:
                _check(libc.setns(before.fileno(), _CLONE_NEWNET))

    def close(self) -> None:
        """Kill everything that runs here; with the last process the host is gone."""
        network = self._network(self.pid)
        others = [p for p in psutil.process_iter() if p.pid != self.pid and self._network(p.pid) == network]
        for process in others:
            if process.pid != os.getpid():
                process.kill()
        self._holder.kill()
        self._holder.wait()

    def _inside(self, *command: str) -> tuple[str, ...]:
        return ("nsenter", f"--target={self.pid}", *NAMESPACES, *command)

    def _is_set_up(self) -> bool:
        assert self._holder.poll() is None, f"host {self.name} could not be set up"
        return Path(f"/proc/{self.pid}/comm").read_text().strip() == "sleep"

    @staticmethod
    def _network(pid: int) -> str | None:
        try:
            return str(Path(f"/proc/{pid}/ns/net").readlink())
        except OSError:
            return None


class Network:
    """Hosts and the router between them.

    Args:
        names: of the hosts.
        directory: for the files of their names.
    """

    def __init__(self, names: Sequence[str], directory: Path) -> None:
        addresses = {name: f"10.213.{number}.2" for number, name in enumerate(names, 1)}
        with ExitStack() as made:
            self._router = Host(ROUTER, "", _hosts_file(directory, ROUTER, {}))
            made.callback(self._router.close)
            self.hosts: dict[str, Host] = {}
            for name, address in addresses.items():
                host = self.hosts[name] = Host(name, address, _hosts_file(directory, name, addresses))
                made.callback(host.close)
                self._connect(host)
            self.heal()
            self._close = made.pop_all().close

    def cut(self) -> None:
        """Let every packet between hosts vanish."""
        self._router.run("sysctl", "-w", "net.ipv4.ip_forward=0")

    def heal(self) -> None:
        """Forward packets again."""
        self._router.run("sysctl", "-w", "net.ipv4.ip_forward=1")

    def close(self) -> None:
        """End all hosts with everything that runs on them."""
        self._close()

    def _connect(self, host: Host) -> None:
        gateway, port = f"{host.address.rpartition('.')[0]}.1", f"to-{host.name}"
        ends = ("eth0", "netns", str(host.pid), "type", "veth", "peer", "name", port, "netns", str(self._router.pid))
        subprocess.run(("ip", "link", "add", *ends), check=True, capture_output=True)
        self._router.run("ip", "address", "add", f"{gateway}/24", "dev", port)
        self._router.run("ip", "link", "set", port, "up")
        host.run("ip", "address", "add", f"{host.address}/24", "dev", "eth0")
        host.run("ip", "link", "set", "eth0", "up")
        host.run("ip", "route", "add", "default", "via", gateway)


def _hosts_file(directory: Path, own_name: str, addresses: Mapping[str, str]) -> Path:
    """Write the /etc/hosts of a host. As on Debian, the address of its own name is 127.0.1.1."""
    known = {"localhost": "127.0.0.1", **addresses, own_name: "127.0.1.1"}
    path = directory / f"hosts-{own_name}"
    path.write_text("".join(f"{address} {name}\n" for name, address in known.items()))
    return path


def _check(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), "the network of a host cannot be entered")
