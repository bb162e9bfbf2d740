"""`make run` reports in one line why it cannot start."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from backend.pipelines.addresses import AddressRefusedError, Outside
from backend.supervisor.checks import StartProblem, check_java, check_port, lock_home, prepare_home
from backend.supervisor.redis_server import configure_redis, find_redis_server
from backend.supervisor.supervisor import LOCAL_ADDRESSES


def test_a_home_that_cannot_be_written_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartProblem, match="cannot be written to") as problem:
        prepare_home(tmp_path / "file" / "home")
    assert "\n" not in str(problem.value)


def test_nobody_else_on_the_machine_reads_a_home(tmp_path: Path) -> None:
    """Nor one that an earlier release has left open: who reads the database has everybody's sessions."""
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    home.chmod(0o755)
    for name in ("db.sqlite3", "db.sqlite3-wal", "secret-key"):
        (home / name).touch()
        (home / name).chmod(0o644)
    prepare_home(home)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (home, *home.iterdir())}
    assert modes == {
        "home": 0o700,
        "logs": 0o700,
        "redis": 0o700,
        "db.sqlite3": 0o600,
        "db.sqlite3-wal": 0o600,
        "secret-key": 0o600,
    }


def test_a_home_belongs_to_one_process(tmp_path: Path) -> None:
    prepare_home(tmp_path)
    with lock_home(tmp_path), pytest.raises(StartProblem, match=r"already runs in .* \(process \d+\)"):
        lock_home(tmp_path)
    lock_home(tmp_path).close()


def test_a_taken_port_is_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(StartProblem, match=f"port {port} .* TIDEMARK_PORT"):
            check_port("127.0.0.1", port)
    check_port("127.0.0.1", port)


def test_a_missing_java_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(StartProblem, match="no bin/java"):
        check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StartProblem, match="install Java 17 or 21"):
        check_java()


def test_the_password_of_redis_is_in_a_private_file_and_not_on_the_command_line(tmp_path: Path) -> None:
    server = configure_redis(tmp_path)
    assert server.command[0] == find_redis_server()
    path = tmp_path / "redis.conf"
    assert path.stat().st_mode & 0o777 == 0o600
    password = server.url.removeprefix("redis://:").partition("@")[0]
    assert f"requirepass {password}\n" in path.read_text()
    assert password not in " ".join(server.command)
    assert configure_redis(tmp_path).url != server.url


def test_without_a_redis_server_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("backend.supervisor.redis_server.BUNDLED", tmp_path / "none")
    with pytest.raises(StartProblem, match="REDIS_URL"):
        find_redis_server()


def test_the_owner_of_the_machine_may_try_databases_in_the_neighbourhood() -> None:
    outside = Outside(LOCAL_ADDRESSES.split(","))
    for host in ("localhost", "192.168.1.4", "10.1.2.3"):
        assert outside.addresses(host, 5432)
    with pytest.raises(AddressRefusedError, match="link-local"):
        outside.addresses("169.254.169.254", 5432)
