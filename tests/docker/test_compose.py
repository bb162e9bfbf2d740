"""docker/: the compose file is safe to start with, and names what exists."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import redis

from backend.supervisor.checks import free_port
from backend.supervisor.redis_server import find_redis_server
from tests.docker.compose_file import ComposeFormatError, filled_in, read_compose
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parent.parent.parent
COMPOSE = read_compose(ROOT / "docker" / "compose.yaml")
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OWN = sorted(name for name, service in SERVICES.items() if service["image"] == "tidemark")
JOBMANAGERS = ("jobmanager", "jobmanager-2", "jobmanager-3")
SECRETS = (
    "POSTGRES_PASSWORD",
    "REDIS_PASSWORD",
    "TIDEMARK_CLUSTER_KEY",
    "TIDEMARK_SECRET_KEY",
    "TIDEMARK_ADMIN_TOKEN",
)
#: keys of sessions
PAGE_KEYS = {"TIDEMARK_SECRET_KEY", "TIDEMARK_FORMER_SECRET_KEYS"}


def test_every_process_of_the_cluster_is_a_service() -> None:
    expected = {"postgres", "redis", "prepare", "web", *JOBMANAGERS, "taskmanager", "spark-master"}
    assert expected | {"spark-worker-1", "spark-worker-2", "kafka"} == set(SERVICES)
    assert {name for name, service in SERVICES.items() if "profiles" in service} == {"kafka"}


def test_the_broker_of_the_profile_is_the_version_that_the_tests_have() -> None:
    kafka = SERVICES["kafka"]
    pom = (ROOT / "scripts" / "kafka" / "pom.xml").read_text()
    [version] = re.findall(r"^apache/kafka:([\d.]+)@", kafka["image"])
    assert f"<version>{version}</version>" in pom
    # clients are sent where the slots and web reach it
    assert kafka["environment"]["KAFKA_ADVERTISED_LISTENERS"] == f"PLAINTEXT://{kafka['hostname']}:9092"
    assert set(kafka["networks"]) & set(SERVICES["spark-worker-1"]["networks"])
    assert set(kafka["networks"]) & set(SERVICES["web"]["networks"])
    assert not set(kafka["networks"]) & {"database", "bus", "page"}
    assert "ports" not in kafka


@pytest.mark.parametrize("name", JOBMANAGERS)
def test_every_jobmanager_is_reached_by_a_name_of_its_own(name: str) -> None:
    service = SERVICES[name]
    assert service["hostname"] == name
    # in the network of the slots alone: it listens at the address that this name has
    assert service["environment"]["TIDEMARK_JOBMANAGER_HOST"] == f"{name}.slots"
    assert service["networks"]["slots"]["aliases"] == [f"{name}.slots"]
    others = {k: v for k, v in service["environment"].items() if k != "TIDEMARK_JOBMANAGER_HOST"}
    of_web = SERVICES["web"]["environment"]
    assert others == {k: v for k, v in of_web.items() if k not in {"TIDEMARK_HOST", *PAGE_KEYS}}
    assert service["command"] == SERVICES["jobmanager"]["command"]


@pytest.mark.parametrize("name", OWN)
def test_a_service_of_ours_has_no_more_rights_than_it_needs(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "user" not in service and "privileged" not in service


@pytest.mark.parametrize("name", sorted(set(SERVICES) - {"prepare"}))
def test_every_lasting_service_has_a_healthcheck(name: str) -> None:
    assert SERVICES[name]["healthcheck"]["test"][0] == "CMD"


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_service_waits_for_what_it_needs(name: str) -> None:
    for needed, how in SERVICES[name].get("depends_on", {}).items():
        condition = how["condition"]
        assert condition in ("service_healthy", "service_started", "service_completed_successfully")
        assert condition != "service_completed_successfully" or SERVICES[needed]["restart"] == "no"
        assert condition != "service_healthy" or "healthcheck" in SERVICES[needed]


def test_secrets_come_from_the_environment_and_must_be_there() -> None:
    text = (ROOT / "docker" / "compose.yaml").read_text()
    for secret in SECRETS:
        assert f"${{{secret}:?" in text
        with pytest.raises(KeyError):
            filled_in(text, {other: "x" for other in SECRETS if other != secret})
    example = (ROOT / "docker" / "env.example").read_text()
    assert all(f"\n{secret}=\n" in f"\n{example}" for secret in SECRETS)


def test_web_says_where_it_listens_so_that_it_refuses_to_speak_in_the_clear() -> None:
    web = SERVICES["web"]
    assert web["environment"]["TIDEMARK_HOST"] == web["command"][web["command"].index("--host") + 1]


def test_what_fills_the_scratch_space_does_not_fill_the_machine() -> None:
    assert all("size=" in mount for name in OWN for mount in SERVICES[name]["tmpfs"])


def test_code_of_users_reaches_no_server_of_the_cluster() -> None:
    networks = {name: set(service["networks"]) for name, service in SERVICES.items()}
    for name in ("spark-master", "spark-worker-1", "spark-worker-2"):
        assert networks[name] == {"slots"}
    for name in ("postgres", "redis", "web", "prepare"):
        assert not networks[name] & networks["spark-worker-1"], name
    # nor does what needs no database
    assert {name for name in SERVICES if "database" in networks[name]} == {"postgres", "prepare", "web", *JOBMANAGERS}
    assert {name for name in SERVICES if "bus" in networks[name]} == {"redis", "web", "taskmanager", *JOBMANAGERS}
    assert set(COMPOSE["networks"]) == set().union(*networks.values())
    assert all(COMPOSE["networks"][name] == {"internal": True} for name in ("database", "bus", "kafka"))


def test_only_web_can_sign_sessions_and_all_know_the_clusters_key() -> None:
    signing = {name for name in SERVICES if PAGE_KEYS & set(SERVICES[name].get("environment", {}))}
    assert signing == {"web", "prepare"}
    sealing = {name for name in SERVICES if "TIDEMARK_CLUSTER_KEY" in SERVICES[name].get("environment", {})}
    assert sealing == {"web", "prepare", "taskmanager", *JOBMANAGERS}


def test_only_who_asks_the_database_can() -> None:
    assert {name for name in OWN if "DATABASE_URL" in SERVICES[name].get("environment", {})} == {
        "prepare",
        "web",
        *JOBMANAGERS,
    }
    taskmanager = SERVICES["taskmanager"]
    assert taskmanager["environment"]["TIDEMARK_TASKMANAGER_HOST"] == taskmanager["networks"]["slots"]["aliases"][0]


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_no_service_takes_the_whole_machine(name: str) -> None:
    service = SERVICES[name]
    assert re.fullmatch(r"(\$\{\w+:-)?\d+g\}?", service["mem_limit"])
    assert re.fullmatch(r"(\$\{\w+:-)?\d+\}?", service["cpus"])
    assert 0 < service["pids_limit"] <= 2048


def test_no_password_is_on_a_command_line() -> None:
    commands = "".join(str(service["command"]) for service in SERVICES.values())
    assert all(f"${{{secret}" not in commands for secret in SECRETS)


def test_redis_asks_for_the_password_that_is_on_no_command_line(tmp_path: Path) -> None:
    port = free_port()
    [shell, flag, script] = SERVICES["redis"]["command"]
    script = script.replace("$$", "$").replace("/run/redis", str(tmp_path))
    script = script.replace("exec redis-server", f"exec '{find_redis_server()}'")
    script += f" --port {port} --bind 127.0.0.1 --dir '{tmp_path}'"
    server = subprocess.Popen((shell, flag, script), env={"REDISCLI_AUTH": "canary7f3a"}, stdout=subprocess.DEVNULL)
    try:

        def answers() -> bool:
            with suppress(redis.exceptions.ConnectionError), redis.Redis(port=port, password="canary7f3a") as client:
                return bool(client.ping())
            return False

        wait_until(answers, 20, "Redis answers")
        with pytest.raises(redis.exceptions.AuthenticationError), redis.Redis(port=port) as stranger:
            stranger.ping()
        assert b"canary" not in Path(f"/proc/{server.pid}/cmdline").read_bytes()
        assert (tmp_path / "redis.conf").stat().st_mode & 0o077 == 0
    finally:
        server.terminate()
        server.wait()


def test_only_the_page_is_published_and_only_here() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {"web": ["127.0.0.1:${TIDEMARK_PORT:-8000}:8000"]}


@pytest.mark.parametrize("name", ["spark-master", "spark-worker-1", "spark-worker-2"])
def test_where_jobs_run_there_is_no_secret(name: str) -> None:
    assert "environment" not in SERVICES[name]
    # slots read programs and write checkpoints, and nothing else
    assert set(SERVICES[name].get("volumes", [])) <= {"state:/var/lib/tidemark/state"}


def test_everybody_who_reads_or_writes_checkpoints_sees_them_at_the_same_place() -> None:
    for name in ("web", *JOBMANAGERS, "taskmanager", "spark-worker-1", "spark-worker-2"):
        assert "state:/var/lib/tidemark/state" in SERVICES[name]["volumes"]
    assert SERVICES["jobmanager"]["environment"]["TIDEMARK_STORAGE_DIR"] == "/var/lib/tidemark/state"
    for variable in ("TIDEMARK_CHECKPOINT_DIR", "TIDEMARK_SAVEPOINT_DIR"):
        assert SERVICES["jobmanager"]["environment"][variable].startswith("/var/lib/tidemark/state/")


@pytest.mark.parametrize("name", OWN)
def test_commands_name_what_the_image_has(name: str) -> None:
    program, first, *rest = SERVICES[name]["command"]
    assert (Path(sys.executable).parent / program).exists()
    if first == "-m":
        assert find_spec(rest[0]) is not None
    elif program == "python":
        assert (ROOT / first).is_file()
        copied = re.findall(r"^COPY (?!--from)(.*) \S+$", (ROOT / "docker" / "Dockerfile").read_text(), re.MULTILINE)
        assert first in " ".join(copied).split()
    command = SERVICES[name]["command"][-1]
    if command in ("jobmanager", "taskmanager"):
        assert (ROOT / "backend" / "cluster" / "management" / "commands" / f"{command}.py").is_file()


def test_images_of_others_are_named_by_version_and_digest() -> None:
    dockerfile = (ROOT / "docker" / "Dockerfile").read_text()
    bases = re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)
    others = bases + [service["image"] for service in SERVICES.values() if service["image"] != "tidemark"]
    assert len(others) == 6
    assert [name for name in others if not re.fullmatch(r"[a-z/]+:\d+\.\d+\.?\d*\S*@sha256:[0-9a-f]{64}", name)] == []


def test_what_the_image_copies_is_there_and_sent_to_the_builder() -> None:
    dockerfile = (ROOT / "docker" / "Dockerfile").read_text()
    ignored = (ROOT / "docker" / "Dockerfile.dockerignore").read_text().splitlines()
    for sources in re.findall(r"^COPY (?!--from)(.*) \S+$", dockerfile, re.MULTILINE):
        for source in sources.split():
            assert (ROOT / source).exists(), source
            parts = source.rstrip("/").split("/")
            assert f"!{source.rstrip('/')}" in ignored or f"!{parts[0]}" in ignored, source
    assert "USER tidemark" in dockerfile


def test_the_reader_refuses_other_yaml(tmp_path: Path) -> None:
    for text in ("a: 'single'\n", "a: {b: 1}\n", "- a\n", "a: 1\na: 2\n", "a: 1\n  b: 2\n"):
        path = tmp_path / "other.yaml"
        path.write_text(text)
        with pytest.raises(ComposeFormatError):
            read_compose(path)


def test_variables_are_filled_in() -> None:
    value = {"a": ["${ONE:?must}", "${TWO:-2}", "x${THREE:-}"]}
    assert filled_in(value, {"ONE": "1"}) == {"a": ["1", "2", "x"]}
