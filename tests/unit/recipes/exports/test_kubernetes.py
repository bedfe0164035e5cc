"""Kubernetes objects: their structure, an unprivileged pod, and the group of several machines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml
from exported import service

from builder.errors import UsageError
from builder.recipes.exports.kubernetes import kubernetes
from builder.recipes.exports.service import Service


def objects(planned: Service) -> dict[str, Any]:
    return {item["kind"]: item for item in yaml.safe_load_all(kubernetes(planned))}


def test_a_pod_has_no_rights_and_one_gpu() -> None:
    found = objects(service("gemma4-31b-fp8", key_file="k"))
    assert set(found) == {"PersistentVolumeClaim", "Deployment", "Service"}
    pod = found["Deployment"]["spec"]["template"]["spec"]
    box = pod["containers"][0]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    assert box["securityContext"] == {"allowPrivilegeEscalation": False,
                                      "capabilities": {"drop": ["ALL"]}}
    assert box["resources"]["limits"] == {"nvidia.com/gpu": 1}
    key = next(item for item in box["env"] if item["name"] == "VLLM_API_KEY")
    assert key["valueFrom"]["secretKeyRef"]["name"] == "gemma4-31b-fp8-api-key"
    assert found["Service"]["spec"]["type"] == "ClusterIP"


def test_every_mount_has_its_volume() -> None:
    for name in ("tiny-gemma4", "gemma4-31b-fp8", "gemma4-31b-awq4-light"):
        pod = objects(service(name))["Deployment"]["spec"]["template"]["spec"]
        assert ({mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
                == {volume["name"] for volume in pod["volumes"]})


def test_several_machines_are_a_leader_and_its_workers() -> None:
    found = objects(service("gemma4-31b-fp8", nodes=2))
    template = found["LeaderWorkerSet"]["spec"]["leaderWorkerTemplate"]
    assert template["size"] == 2
    assert template["restartPolicy"] == "RecreateGroupOnPodRestart"
    leader, worker = (template[f"{role}Template"]["spec"]["containers"][0]
                      for role in ("leader", "worker"))
    assert "--headless" in worker["command"]
    assert "--headless" not in leader["command"]
    assert "ports" not in worker
    assert leader["command"][leader["command"].index("--node-rank") + 1] == "$(LWS_WORKER_INDEX)"
    assert found["Service"]["spec"]["selector"]["role"] == "leader"


def test_a_value_is_no_reference_to_a_variable() -> None:
    pod = objects(service("tiny-gemma4", serve=("--chat", "$(HOME)")))[
        "Deployment"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["command"][-1] == "$$(HOME)"


def test_only_who_asks_gets_a_public_service() -> None:
    found = objects(service("tiny-gemma4", host="0.0.0.0"))
    assert found["Service"]["spec"]["type"] == "LoadBalancer"
    assert "PersistentVolumeClaim" not in found


def named(name: str) -> Service:
    planned = service("tiny-gemma4")
    return replace(planned, recipe=planned.recipe.model_copy(update={"name": name}))


@pytest.mark.parametrize(("name", "given"), [
    ("2x.my-recipe", "vllm-2x-my-recipe"), ("gemma4-0.5b", "gemma4-0-5b"), ("a" * 63, "a" * 63)])
def test_a_service_has_a_name_that_kubernetes_takes(name: str, given: str) -> None:
    found = objects(named(name))
    assert {found["Service"]["metadata"]["name"], found["Deployment"]["metadata"]["name"],
            found["Service"]["spec"]["selector"]["app.kubernetes.io/name"]} == {given}


def test_a_name_that_is_too_long_is_refused() -> None:
    with pytest.raises(UsageError, match="at most 63 characters"):
        kubernetes(named("a" * 64))


def test_the_path_of_the_key_is_one_word_of_the_shell() -> None:
    text = kubernetes(service("tiny-gemma4", key_file="/a b;touch x/key"))
    assert "--from-env-file='/a b;touch x/key'\n" in text
