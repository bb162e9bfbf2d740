"""docker/: the compose file is safe to start with, and names what exists."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docker.compose_file import ComposeFormatError, filled_in, read_compose

ROOT = Path(__file__).resolve().parent.parent.parent
COMPOSE = read_compose(ROOT / "docker" / "compose.yaml")
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OWN = sorted(name for name, service in SERVICES.items() if service["image"] == "tidemark")
JOBMANAGERS = ("jobmanager", "jobmanager-2", "jobmanager-3")
SECRETS = ("POSTGRES_PASSWORD", "REDIS_PASSWORD", "TIDEMARK_SECRET_KEY", "TIDEMARK_ADMIN_TOKEN")


def test_every_process_of_the_cluster_is_a_service() -> None:
    expected = {"postgres", "redis", "prepare", "web", *JOBMANAGERS, "taskmanager", "spark-master"}
    assert expected | {"spark-worker-1", "spark-worker-2"} == set(SERVICES)


@pytest.mark.parametrize("name", JOBMANAGERS)
def test_every_jobmanager_is_reached_by_a_name_of_its_own(name: str) -> None:
    service = SERVICES[name]
    assert service["hostname"] == service["environment"]["TIDEMARK_JOBMANAGER_HOST"] == name
    others = {k: v for k, v in service["environment"].items() if k != "TIDEMARK_JOBMANAGER_HOST"}
    assert others == {k: v for k, v in SERVICES["web"]["environment"].items() if k != "TIDEMARK_HOST"}
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
    program, first, *_ = SERVICES[name]["command"]
    assert (Path(sys.executable).parent / program).exists()
    if program == "python":
        assert (ROOT / first).is_file()
        copied = re.findall(r"^COPY (?!--from)(.*) \S+$", (ROOT / "docker" / "Dockerfile").read_text(), re.MULTILINE)
        assert first in " ".join(copied).split()
    command = SERVICES[name]["command"][-1]
    if command in ("jobmanager", "taskmanager"):
        assert (ROOT / "backend" / "cluster" / "management" / "commands" / f"{command}.py").is_file()


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
