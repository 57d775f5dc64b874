"""Defaults of built-in kinds that a scheduler, a node controller or `kubectl` can see (pkg/apis/*/v1/defaults.go)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sandbox.apiserver.kinds.resources import Resource

Obj = dict[str, Any]


def apply(resource: Resource, obj: Obj) -> None:
    """Fills in what the client left out, in place. Applying twice changes nothing."""
    default = _BY_KIND.get((resource.group, resource.plural))
    if default is not None:
        default(obj)


def pod_spec(spec: Obj) -> None:
    """Defaults of a pod spec, in pods and in templates."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        _container(container, host_network=bool(spec.get("hostNetwork")))
    for volume in spec.get("volumes") or ():
        _volume(volume)
    for constraint in spec.get("topologySpreadConstraints") or ():
        constraint.setdefault("whenUnsatisfiable", "DoNotSchedule")


def _container(container: Obj, *, host_network: bool) -> None:
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    image = str(container.get("image", ""))
    tag = image.rpartition("/")[2]
    container.setdefault("imagePullPolicy", "Always" if ":" not in tag or tag.endswith(":latest") else "IfNotPresent")
    if "@" in image and "imagePullPolicy" not in container:
        container["imagePullPolicy"] = "IfNotPresent"
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if host_network:
            port.setdefault("hostPort", port.get("containerPort"))
    resources = container["resources"]
    limits = resources.get("limits")
    if limits:
        resources["requests"] = {**limits, **(resources.get("requests") or {})}
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe in container:
            _probe(container[probe])


def _probe(probe: Obj) -> None:
    for key, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        probe.setdefault(key, value)
    if "httpGet" in probe:
        probe["httpGet"].setdefault("scheme", "HTTP")
        probe["httpGet"].setdefault("path", "/")


def _volume(volume: Obj) -> None:
    sources = [key for key in volume if key != "name"]
    if not sources:
        volume["emptyDir"] = {}
    for key in ("configMap", "secret", "downwardAPI", "projected"):
        if isinstance(volume.get(key), dict):
            volume[key].setdefault("defaultMode", 420)
    if isinstance(volume.get("hostPath"), dict):
        volume["hostPath"].setdefault("type", "")
    claim = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if isinstance(claim, dict):
        claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def _pod(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("serviceAccountName", "default")
    spec["serviceAccount"] = spec["serviceAccountName"]


def _template(spec: Obj) -> None:
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    pod_spec(template.setdefault("spec", {}))


def _deployment(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    _template(spec)
    for key, value in (("replicas", 1), ("revisionHistoryLimit", 10), ("progressDeadlineSeconds", 600)):
        spec.setdefault(key, value)
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")


def _replica_set(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    if "template" in spec:
        _template(spec)


def _daemon_set(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    _template(spec)
    spec.setdefault("revisionHistoryLimit", 10)
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)


def _stateful_set(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    _template(spec)
    for key, value in (("replicas", 1), ("revisionHistoryLimit", 10), ("podManagementPolicy", "OrderedReady")):
        spec.setdefault(key, value)
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
    spec.setdefault("persistentVolumeClaimRetentionPolicy", {"whenDeleted": "Retain", "whenScaled": "Retain"})
    for claim in spec.get("volumeClaimTemplates") or ():
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("kind", "PersistentVolumeClaim")
        claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
        claim.setdefault("status", {}).setdefault("phase", "Pending")


def _job(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    _template(spec)
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    defaults: Iterable[tuple[str, Any]] = (
        ("parallelism", 1), ("backoffLimit", 6), ("completionMode", "NonIndexed"), ("suspend", False),
        ("podReplacementPolicy", "TerminatingOrFailed"), ("manualSelector", False),
    )  # fmt: skip
    for key, value in defaults:
        spec.setdefault(key, value)


def _cron_job(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    for key, value in (
        ("concurrencyPolicy", "Allow"),
        ("suspend", False),
        ("successfulJobsHistoryLimit", 3),
        ("failedJobsHistoryLimit", 1),
    ):
        spec.setdefault(key, value)
    _template(spec.setdefault("jobTemplate", {}).setdefault("spec", {}))


def _node(obj: Obj) -> None:
    obj.setdefault("spec", {})
    status = obj.setdefault("status", {})
    if "capacity" in status:
        status["allocatable"] = {**status["capacity"], **(status.get("allocatable") or {})}
    status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
    status.setdefault("nodeInfo", dict.fromkeys(_NODE_INFO, ""))


_NODE_INFO = (
    "machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion",
    "kubeProxyVersion", "operatingSystem", "architecture",
)  # fmt: skip


def _namespace(obj: Obj) -> None:
    labels = obj["metadata"].setdefault("labels", {})
    if "name" in obj["metadata"]:
        labels["kubernetes.io/metadata.name"] = obj["metadata"]["name"]
    spec = obj.setdefault("spec", {})
    if "deletionTimestamp" not in obj["metadata"]:
        spec.setdefault("finalizers", ["kubernetes"])
    obj.setdefault("status", {}).setdefault("phase", "Active")


def _claim(obj: Obj) -> None:
    obj.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
    obj.setdefault("status", {}).setdefault("phase", "Pending")


def _volume_object(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    obj.setdefault("status", {}).setdefault("phase", "Pending")


def _storage_class(obj: Obj) -> None:
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def _priority_class(obj: Obj) -> None:
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _secret(obj: Obj) -> None:
    obj.setdefault("type", "Opaque")


def _service(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("internalTrafficPolicy", "Cluster")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))


def _webhooks(obj: Obj) -> None:
    for hook in obj.get("webhooks") or ():
        for key, value in (("failurePolicy", "Fail"), ("matchPolicy", "Equivalent"), ("timeoutSeconds", 10)):
            hook.setdefault(key, value)
        hook.setdefault("namespaceSelector", {})
        hook.setdefault("objectSelector", {})
        for rule in hook.get("rules") or ():
            rule.setdefault("scope", "*")
        service = (hook.get("clientConfig") or {}).get("service")
        if service is not None:
            service.setdefault("port", 443)


def _mutating_webhooks(obj: Obj) -> None:
    _webhooks(obj)
    for hook in obj.get("webhooks") or ():
        hook.setdefault("reinvocationPolicy", "Never")


def _custom_resource_definition(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = str(names.get("kind", ""))
    names.setdefault("singular", kind.lower())
    names.setdefault("listKind", f"{kind}List")
    spec.setdefault("conversion", {"strategy": "None"})


_BY_KIND: dict[tuple[str, str], Callable[[Obj], None]] = {
    ("apiextensions.k8s.io", "customresourcedefinitions"): _custom_resource_definition,
    ("", "pods"): _pod,
    ("", "nodes"): _node,
    ("", "namespaces"): _namespace,
    ("", "persistentvolumeclaims"): _claim,
    ("", "persistentvolumes"): _volume_object,
    ("", "replicationcontrollers"): _replica_set,
    ("", "secrets"): _secret,
    ("", "services"): _service,
    ("apps", "deployments"): _deployment,
    ("apps", "replicasets"): _replica_set,
    ("apps", "daemonsets"): _daemon_set,
    ("apps", "statefulsets"): _stateful_set,
    ("batch", "jobs"): _job,
    ("batch", "cronjobs"): _cron_job,
    ("storage.k8s.io", "storageclasses"): _storage_class,
    ("scheduling.k8s.io", "priorityclasses"): _priority_class,
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): _mutating_webhooks,
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): _webhooks,
}
