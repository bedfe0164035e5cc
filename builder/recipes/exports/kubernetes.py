"""Kubernetes: a Deployment with its Service, or a LeaderWorkerSet for several machines.

A pod has one server. Several machines run vLLM's own multi-node: the leader answers, the workers
follow it without a port of their own.
"""

from __future__ import annotations

import math
import shlex
from typing import Any

from builder.errors import UsageError
from builder.recipes.exports.launchers import for_nodes
from builder.recipes.exports.service import KEY, LOOPBACK, WORKING_FOLDER, Holds, Mount, Service
from builder.recipes.exports.yaml_text import to_yaml
from builder.recipes.launch import PORT

USER = 1000  # any user but root; the image has no preference
MASTER_PORT = 25000
BOOT_S = 3600  # a cold start downloads and compiles
GPU = "nvidia.com/gpu"
LONGEST = 63  # characters of a Service's name and of a label


def kubernetes(service: Service) -> str:
    """Return the objects as one YAML stream."""
    nodes = service.asked.nodes
    server = _deployment(service) if nodes == 1 else _leader_worker_set(service)
    objects = [*_claims(service), server, _service(service)]
    return to_yaml([*_remarks(service), *_steps(service)], *objects)


def _name(service: Service) -> str:
    """Return the recipe's name as a Service may have it: no dot, and a letter first."""
    name = service.name.replace(".", "-")
    name = name if name[0].isalpha() else f"vllm-{name}"
    if len(name) > LONGEST:
        raise UsageError(f"a Service in Kubernetes has a name of at most {LONGEST} characters",
                         where=service.name, next_step="give the recipe's file a shorter name")
    return name


def _meta(service: Service) -> dict[str, Any]:
    return {"name": _name(service), "labels": _labels(service)}


def _labels(service: Service) -> dict[str, str]:
    return {"app.kubernetes.io/name": _name(service)}


def _deployment(service: Service) -> dict[str, Any]:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _meta(service),
            "spec": {"replicas": 1, "strategy": {"type": "Recreate"},  # the GPU has no second place
                     "selector": {"matchLabels": _labels(service)},
                     "template": {"metadata": {"labels": _labels(service)},
                                  "spec": _pod(service, list(service.command), is_head=True)}}}


def _leader_worker_set(service: Service) -> dict[str, Any]:
    command = [*for_nodes(service.command, service.asked.nodes)]
    ranks = ["--nnodes", "$(LWS_GROUP_SIZE)", "--node-rank", "$(LWS_WORKER_INDEX)",
             "--master-addr", "$(LWS_LEADER_ADDRESS)", "--master-port", str(MASTER_PORT)]
    leader = {"metadata": {"labels": {**_labels(service), "role": "leader"}},
              "spec": _pod(service, command, ranks, is_head=True)}
    worker = {"metadata": {"labels": _labels(service)},
              "spec": _pod(service, command, [*ranks, "--headless"], is_head=False)}
    return {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
            "metadata": _meta(service),
            "spec": {"replicas": 1, "leaderWorkerTemplate": {
                "size": service.asked.nodes, "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": leader, "workerTemplate": worker}}}


def _pod(service: Service, command: list[str], ranks: list[str] | None = None, *,
         is_head: bool) -> dict[str, Any]:
    words = [word.replace("$(", "$$(") for word in command] + (ranks or [])
    container: dict[str, Any] = {
        "name": "vllm", "image": service.image.reference, "command": words,
        "workingDir": WORKING_FOLDER, "env": _environment(service, several=ranks is not None),
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - in the container
                         *map(_mounted, service.mounts)],
        **({"resources": {"limits": {GPU: 1}}} if service.cell.is_cuda else {}),
        **(_probes() if is_head else {})}  # a follower has no port to ask
    return {"automountServiceAccountToken": False, "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 60,
            "securityContext": {"runAsNonRoot": True, "runAsUser": USER, "runAsGroup": USER,
                                "fsGroup": USER, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container],
            "volumes": [{"name": "shm", "emptyDir": {
                "medium": "Memory", "sizeLimit": service.shared_memory.upper() + "i"}},
                *_volumes(service)]}


def _probes() -> dict[str, Any]:
    health = {"httpGet": {"path": "/health", "port": PORT}}
    return {"ports": [{"name": "http", "containerPort": PORT}],
            "startupProbe": {**health, "periodSeconds": 10, "failureThreshold": BOOT_S // 10},
            "readinessProbe": {**health, "periodSeconds": 10, "timeoutSeconds": 5},
            "livenessProbe": {**health, "periodSeconds": 30, "timeoutSeconds": 10,
                              "failureThreshold": 4}}


def _environment(service: Service, *, several: bool) -> list[dict[str, Any]]:
    values: list[dict[str, Any]] = [
        {"name": name, "value": value.replace("$(", "$$(")}
        for name, value in service.environment.items() if name != "HF_HUB_OFFLINE"]
    if several:
        values.append({"name": "VLLM_HOST_IP",
                       "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}})
    if service.asked.key_file:
        values.append(_secret(KEY, f"{_name(service)}-api-key", optional=False))
    if service.recipe.model.repository:
        values.append(_secret("HF_TOKEN", "huggingface", optional=True))
    return values


def _secret(name: str, secret: str, *, optional: bool) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"secretKeyRef": {
        "name": secret, "key": name, "optional": optional}}}


def _mounted(mount: Mount) -> dict[str, Any]:
    if mount.holds is Holds.TEMPLATE:
        return {"name": "template", "mountPath": mount.target, "subPath": "chat_template.jinja",
                "readOnly": True}
    read_only = mount.holds is Holds.MODEL  # whether a claim is complete cannot be seen from here
    return {"name": mount.holds.value, "mountPath": mount.target,
            **({"readOnly": True} if read_only else {})}


def _volumes(service: Service) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = []
    for mount in service.mounts:
        if mount.holds is Holds.TEMPLATE:
            volumes.append({"name": "template",
                            "configMap": {"name": f"{_name(service)}-template"}})
        elif mount.holds is Holds.MODEL:
            volumes.append({"name": "model", "hostPath": {"path": mount.source,
                                                          "type": "Directory"}})
        elif mount.holds is Holds.HUB:
            volumes.append({"name": "hub", "persistentVolumeClaim": {
                "claimName": f"{_name(service)}-hub"}})
        else:
            volumes.append({"name": "compiled", "emptyDir": {}})
    return volumes


def _claims(service: Service) -> list[dict[str, Any]]:
    if service.recipe.model.repository is None:
        return []
    # Two bytes a parameter are BF16, the largest that is served; a tenth for the rest.
    size = math.ceil(service.recipe.model.parameters_billion * 2.2) + 10
    several = service.asked.nodes > 1
    return [{"apiVersion": "v1", "kind": "PersistentVolumeClaim",
             "metadata": {**_meta(service), "name": f"{_name(service)}-hub"},
             "spec": {"accessModes": ["ReadWriteMany" if several else "ReadWriteOnce"],
                      "resources": {"requests": {"storage": f"{size}Gi"}}}}]


def _service(service: Service) -> dict[str, Any]:
    selector = {**_labels(service), **({"role": "leader"} if service.asked.nodes > 1 else {})}
    is_public = service.asked.host != LOOPBACK
    return {"apiVersion": "v1", "kind": "Service", "metadata": _meta(service),
            "spec": {"type": "LoadBalancer" if is_public else "ClusterIP", "selector": selector,
                     "ports": [{"name": "http", "port": PORT, "targetPort": PORT}]}}


def _remarks(service: Service) -> list[str]:
    remarks = [*service.remarks]
    if service.asked.host == LOOPBACK:
        remarks.append("The Service is reachable inside the cluster only; --public makes it a "
                       "LoadBalancer.")
    if service.recipe.model.path:
        remarks.append("The model is a folder of the node (hostPath): it has to lie there.")
    if service.asked.nodes > 1:
        remarks.append("Needs the LeaderWorkerSet controller and a volume that several nodes can "
                       "write. RDMA devices and the names of network interfaces are the "
                       "cluster's: add them for full speed. This recipe was never measured so.")
    return remarks


def _steps(service: Service) -> list[str]:
    steps = [*service.steps]
    if service.steps:
        steps.append(f"kubectl create configmap {_name(service)}-template "
                     "--from-file=chat_template.jinja")
    if service.asked.key_file:
        steps.append(f"kubectl create secret generic {_name(service)}-api-key "
                     f"--from-env-file={shlex.quote(service.asked.key_file)}")
    return [f"Before: {step}" for step in steps]
