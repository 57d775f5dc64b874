"""Workloads as a user writes them; an app is a label of that name on workload and pods."""

from __future__ import annotations

from typing import Any

from sandbox.world.resources import Obj

IMAGE = "public.ecr.aws/eks-distro/kubernetes/pause:3.7"


def pod_spec(cpu: str = "1", **more: Any) -> Obj:
    """A pod's spec; `more` goes over it. `requests` are the container's beside cpu."""
    requests = {"cpu": cpu, **more.pop("requests", {})}
    limits = {name: amount for name, amount in requests.items() if "/" in name}
    container = {"name": "main", "image": IMAGE, "resources": {"requests": requests, "limits": limits}}
    container.update(more.pop("container", {}))
    return {"terminationGracePeriodSeconds": 1, "containers": [container], **more}


def _workload(kind: str, app: str, spec: Obj, pod: Obj, api: str = "apps/v1") -> Obj:
    selector = {"app": app}
    template = {"metadata": {"labels": selector}, "spec": pod}
    body = {"selector": {"matchLabels": selector}, "template": template, **spec}
    return {"apiVersion": api, "kind": kind, "metadata": {"name": app, "labels": selector}, "spec": body}


def deployment(app: str, replicas: int, **pod: Any) -> Obj:
    """A Deployment."""
    return _workload("Deployment", app, {"replicas": replicas}, pod_spec(**pod))


def stateful_set(app: str, replicas: int, **pod: Any) -> Obj:
    """A StatefulSet that makes its pods side by side."""
    spec = {"replicas": replicas, "serviceName": app, "podManagementPolicy": "Parallel"}
    return _workload("StatefulSet", app, spec, pod_spec(**pod))


def daemon_set(app: str, **pod: Any) -> Obj:
    """A DaemonSet."""
    return _workload("DaemonSet", app, {}, pod_spec(**pod))


def job(app: str, **pod: Any) -> Obj:
    """A Job of one pod."""
    document = _workload("Job", app, {}, pod_spec(restartPolicy="Never", **pod), "batch/v1")
    del document["spec"]["selector"]
    return document


def budget(app: str, **spec: Any) -> Obj:
    """A PodDisruptionBudget for the pods of an app."""
    body = {"selector": {"matchLabels": {"app": app}}, **spec}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app}, "spec": body}


def spread(app: str, key: str, skew: int = 1) -> Obj:
    """A hard topology spread constraint."""
    selector = {"matchLabels": {"app": app}}
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}


def affinity(kind: str, app: str, key: str) -> Obj:
    """A required podAffinity or podAntiAffinity to the pods of an app."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def claim(name: str, storage_class: str = "gp3", volume: str = "") -> Obj:
    """A claim of 4Gi, of a class's making or of a volume that is there."""
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "4Gi"}},
        "storageClassName": storage_class,
        **({"volumeName": volume} if volume else {}),
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def mounts(name: str) -> Obj:
    """Pod spec keys that mount a claim."""
    return {
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}],
        "container": {"volumeMounts": [{"name": "data", "mountPath": "/data"}]},
    }
