"""Workloads as JSON documents. An app is the value of the label `app` on a workload and its pods."""

from __future__ import annotations

from typing import Any

from sandbox.world.resources import Obj

IMAGE = "public.ecr.aws/eks-distro/kubernetes/pause:3.7"


def pod_spec(cpu: str = "1", **more: Any) -> Obj:
    """Return a pod spec with one container. `more` overrides keys, `requests` adds to the container's CPU request."""
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
    """Return a Deployment."""
    return _workload("Deployment", app, {"replicas": replicas}, pod_spec(**pod))


def stateful_set(app: str, replicas: int, **pod: Any) -> Obj:
    """Return a StatefulSet with podManagementPolicy Parallel."""
    spec = {"replicas": replicas, "serviceName": app, "podManagementPolicy": "Parallel"}
    return _workload("StatefulSet", app, spec, pod_spec(**pod))


def daemon_set(app: str, **pod: Any) -> Obj:
    """Return a DaemonSet."""
    return _workload("DaemonSet", app, {}, pod_spec(**pod))


def job(app: str, **pod: Any) -> Obj:
    """Return a Job of one pod."""
    document = _workload("Job", app, {}, pod_spec(restartPolicy="Never", **pod), "batch/v1")
    del document["spec"]["selector"]
    return document


def budget(app: str, **spec: Any) -> Obj:
    """Return a PodDisruptionBudget for the pods of an app."""
    body = {"selector": {"matchLabels": {"app": app}}, **spec}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app}, "spec": body}


def spread(app: str, key: str, skew: int = 1) -> Obj:
    """Return a topology spread constraint with whenUnsatisfiable DoNotSchedule."""
    selector = {"matchLabels": {"app": app}}
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}


def affinity(kind: str, app: str, key: str) -> Obj:
    """Return a required podAffinity or podAntiAffinity term for the pods of an app."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def claim(name: str, storage_class: str = "gp3", volume: str = "") -> Obj:
    """Return a 4Gi PersistentVolumeClaim, provisioned by a StorageClass or bound to an existing volume."""
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "4Gi"}},
        "storageClassName": storage_class,
        **({"volumeName": volume} if volume else {}),
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def mounts(name: str) -> Obj:
    """Return the pod spec keys that mount a claim."""
    return {
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}],
        "container": {"volumeMounts": [{"name": "data", "mountPath": "/data"}]},
    }
