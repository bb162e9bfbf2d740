"""docker/kubernetes: pods are closed, have the secrets that they need and no others, and fit together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docker.compose_file import read_compose

ROOT = Path(__file__).resolve().parent.parent.parent
DIRECTORY = ROOT / "docker" / "kubernetes"
FILES = sorted(path.name for path in DIRECTORY.glob("*.yaml"))
NOT_RESOURCES = {"kustomization.yaml", "secrets.example.yaml"}
WORKLOADS = ("Deployment", "StatefulSet", "Job")
STORES = {"DATABASE_URL", "REDIS_URL", "TIDEMARK_CLUSTER_KEY"}
#: workload → the secrets that it has
SECRETS = {
    "prepare": STORES | {"TIDEMARK_SECRET_KEY", "TIDEMARK_ADMIN_TOKEN"},
    "web": STORES | {"TIDEMARK_SECRET_KEY"},
    "jobmanager": STORES,
    "taskmanager": {"REDIS_URL", "TIDEMARK_CLUSTER_KEY"},
    "spark-master": set(),
    "spark-worker": set(),
}


def _documents() -> Iterator[dict[str, Any]]:
    for name in FILES:
        if name not in NOT_RESOURCES:
            yield from yaml.safe_load_all((DIRECTORY / name).read_text())


RESOURCES = {(document["kind"], document["metadata"]["name"]): document for document in _documents()}
PODS: dict[str, dict[str, Any]] = {
    name: document["spec"]["template"] for (kind, name), document in RESOURCES.items() if kind in WORKLOADS
}
CONFIGURATION: dict[str, str] = RESOURCES["ConfigMap", "tidemark"]["data"]


def container(name: str) -> dict[str, Any]:
    [found] = PODS[name]["spec"]["containers"]
    return dict(found)


def selected(selector: Mapping[str, Any]) -> set[str]:
    """Return the workloads whose pods a selector means."""
    labels = {name: pod["metadata"]["labels"] for name, pod in PODS.items()}
    wanted = selector.get("matchLabels", {})
    found = {name for name, given in labels.items() if wanted.items() <= given.items()}
    for expression in selector.get("matchExpressions", ()):
        assert expression["operator"] == "In"
        found = {name for name in found if labels[name].get(expression["key"]) in expression["values"]}
    return found


def test_the_kustomization_has_all_files_and_the_secrets_are_not_among_them() -> None:
    kustomization = yaml.safe_load((DIRECTORY / "kustomization.yaml").read_text())
    assert sorted(kustomization["resources"]) == [name for name in FILES if name not in NOT_RESOURCES]
    # a name that is not tidemark's would not be replaced
    assert {container(name)["image"] for name in PODS} == {image["name"] for image in kustomization["images"]}
    assert set(PODS) == set(SECRETS)


@pytest.mark.parametrize("name", sorted(SECRETS))
def test_a_pod_has_no_rights_and_limits(name: str) -> None:
    pod, only = PODS[name]["spec"], container(name)
    assert pod["automountServiceAccountToken"] is False and pod["enableServiceLinks"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert only["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert set(only["resources"]["limits"]) == {"cpu", "memory"}
    # what a limit of memory promises is there
    assert only["resources"]["requests"]["memory"] == only["resources"]["limits"]["memory"]
    sizes = {volume["name"]: volume["emptyDir"] for volume in pod["volumes"] if "emptyDir" in volume}
    assert all("sizeLimit" in size for size in sizes.values())


@pytest.mark.parametrize("name", sorted(SECRETS))
def test_a_pod_has_the_secrets_that_it_needs_and_no_others(name: str) -> None:
    given = {entry["name"]: entry for entry in container(name).get("env", ())}
    secrets = {key for key, entry in given.items() if "secretKeyRef" in entry.get("valueFrom", {})}
    assert secrets == SECRETS[name]
    assert all("secretRef" not in source for source in container(name).get("envFrom", ()))
    [example] = yaml.safe_load_all((DIRECTORY / "secrets.example.yaml").read_text())
    assert secrets <= example["stringData"].keys()


@pytest.mark.parametrize("name", sorted(SECRETS))
def test_volumes_are_mounted_and_claims_exist(name: str) -> None:
    volumes = {volume["name"]: volume for volume in PODS[name]["spec"]["volumes"]}
    assert {mount["name"] for mount in container(name)["volumeMounts"]} == set(volumes)
    claims = {v["persistentVolumeClaim"]["claimName"] for v in volumes.values() if "persistentVolumeClaim" in v}
    assert all(("PersistentVolumeClaim", claim) in RESOURCES for claim in claims)
    # master and page's files apart, all of them are at one path everywhere
    if "state" in volumes:
        [path] = [m["mountPath"] for m in container(name)["volumeMounts"] if m["name"] == "state"]
        assert path == CONFIGURATION["TIDEMARK_STORAGE_DIR"]


def test_every_setting_is_one_that_the_documentation_has() -> None:
    described = set(re.findall(r"`([A-Z_]+)`", (ROOT / "docs" / "deployment.md").read_text()))
    used = set(CONFIGURATION) | {entry["name"] for name in PODS for entry in container(name).get("env", ())}
    assert {name for name in used if name.startswith("TIDEMARK_")} <= described


def test_selectors_mean_the_pods_and_services_have_the_names_that_are_used() -> None:
    for (kind, name), document in RESOURCES.items():
        if kind in ("Deployment", "StatefulSet"):
            assert selected(document["spec"]["selector"]) == {name}
        if kind == "Service":
            assert selected({"matchLabels": document["spec"]["selector"]}) == {name}
        if kind == "PodDisruptionBudget":
            assert selected(document["spec"]["selector"]) == {name}
        if kind == "StatefulSet":
            service = RESOURCES["Service", document["spec"]["serviceName"]]
            # only a headless one gives each pod a name
            assert service["spec"]["clusterIP"] == "None" and service["spec"]["publishNotReadyAddresses"] is True
    master = re.fullmatch(r"spark://([\w-]+):\d+", CONFIGURATION["TIDEMARK_SPARK_MASTER"])
    assert master is not None and ("Service", master[1]) in RESOURCES


@pytest.mark.parametrize("name", ["jobmanager", "taskmanager"])
def test_a_pod_is_reached_by_a_name_of_its_own(name: str) -> None:
    given = {entry["name"]: entry for entry in container(name)["env"]}
    assert given[f"TIDEMARK_{name.upper()}_HOST"]["value"] == f"$(POD_NAME).{name}"
    # a variable is replaced by those before it only
    assert list(given).index("POD_NAME") < list(given).index(f"TIDEMARK_{name.upper()}_HOST")
    assert RESOURCES["StatefulSet", name]["spec"]["serviceName"] == name


def test_a_taskmanager_has_time_to_drain_and_is_told_once() -> None:
    drained_s = int(CONFIGURATION["TIDEMARK_DRAIN_TIMEOUT"])
    assert PODS["taskmanager"]["spec"]["terminationGracePeriodSeconds"] >= drained_s + 15
    # a second SIGTERM ends it at once
    assert "preStop" not in container("taskmanager").get("lifecycle", {})


def test_several_of_each_kind_survive_a_drained_node() -> None:
    assert RESOURCES["StatefulSet", "jobmanager"]["spec"]["replicas"] == 3
    for kind, name in (("Deployment", "web"), ("StatefulSet", "jobmanager"), ("StatefulSet", "taskmanager")):
        assert RESOURCES[kind, name]["spec"]["replicas"] >= 2
        assert ("PodDisruptionBudget", name) in RESOURCES


def test_commands_are_those_of_compose() -> None:
    services = read_compose(ROOT / "docker" / "compose.yaml")["services"]
    for name in ("prepare", "web", "jobmanager", "taskmanager"):
        assert container(name)["command"] == services[name]["command"]


def test_only_who_needs_them_reaches_the_stores() -> None:
    """Users' code runs in the workers."""
    policies = {name: document["spec"] for (kind, name), document in RESOURCES.items() if kind == "NetworkPolicy"}
    assert selected(policies["nobody"]["podSelector"]) == set(PODS)
    assert set(policies["nobody"]["policyTypes"]) == {"Ingress", "Egress"} and "ingress" not in policies["nobody"]
    reached: dict[int, set[str]] = {5432: set(), 6379: set()}
    for policy in policies.values():
        for rule in policy.get("egress", ()):
            for port in rule.get("ports", ()):
                reached.get(port["port"], set()).update(selected(policy["podSelector"]))
    assert reached == {
        5432: {"web", "jobmanager", "prepare"},
        6379: {"web", "jobmanager", "prepare", "taskmanager"},
    }
    slots = {"jobmanager", "taskmanager", "spark-master", "spark-worker"}
    assert selected(policies["slots"]["podSelector"]) == slots
    for way, end in (("ingress", "from"), ("egress", "to")):
        [rule] = policies["slots"][way]
        assert [selected(peer["podSelector"]) for peer in rule[end]] == [slots]
