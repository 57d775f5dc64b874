"""The columns of built-in kinds: what `kubectl get` shows of them (pkg/printers/internalversion/printers.go)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sandbox.apiserver.tables.columns import (
    AGE,
    CREATED,
    NAME,
    WIDE,
    Cell,
    Column,
    Obj,
    age,
    field,
    human_duration,
    value_at,
)
from sandbox.apiserver.tables.printers_core import NODE_COLUMNS, POD_COLUMNS
from sandbox.apiserver.verbs.selectors import selector_text

NONE = "<none>"


def _count(path: str) -> Cell:
    keys = path.split(".")
    return lambda obj, _: len(value_at(obj, keys) or ())


def _number(path: str) -> Cell:
    return field(path, 0)


def _containers(path: str, key: str) -> Cell:
    keys = path.split(".")

    def cell(obj: Obj, _: datetime) -> str:
        return ",".join(str(c.get(key, "")) for c in value_at(obj, keys) or ()) or NONE

    return cell


def _selector(path: str) -> Cell:
    keys = path.split(".")
    return lambda obj, _: selector_text(value_at(obj, keys)) or NONE


def _pairs(path: str) -> Cell:
    keys = path.split(".")

    def cell(obj: Obj, _: datetime) -> str:
        pairs = value_at(obj, keys) or {}
        return ",".join(f"{key}={value}" for key, value in sorted(pairs.items())) or NONE

    return cell


def _of(part: str, whole: str) -> Cell:
    read_part, read_whole = _number(part), _number(whole)
    return lambda obj, now: f"{read_part(obj, now)}/{read_whole(obj, now)}"


def _since(path: str) -> Cell:
    keys = path.split(".")
    return lambda obj, now: age(value_at(obj, keys), now)


_TEMPLATE = "spec.template.spec.containers"
_WORKLOAD = (
    Column("Containers", _containers(_TEMPLATE, "name"), priority=WIDE),
    Column("Images", _containers(_TEMPLATE, "image"), priority=WIDE),
    Column("Selector", _selector("spec.selector"), priority=WIDE),
)
_REPLICAS = (
    Column("Desired", _number("spec.replicas"), "integer"),
    Column("Current", _number("status.replicas"), "integer"),
    Column("Ready", _number("status.readyReplicas"), "integer"),
)


def _event_source(obj: Obj, _: datetime) -> str:
    source = obj.get("source") or {}
    parts = (
        source.get("component") or obj.get("reportingComponent"),
        source.get("host") or obj.get("reportingInstance"),
    )
    return ", ".join(part for part in parts if part)


def _event_object(obj: Obj, _: datetime) -> str:
    involved = obj.get("involvedObject") or {}
    return f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"


def _last_seen(obj: Obj, now: datetime) -> str:
    series = obj.get("series") or {}
    last = series.get("lastObservedTime") or obj.get("lastTimestamp") or obj.get("eventTime")
    times = series.get("count") or obj.get("count") or 1
    return f"{age(last, now)} (x{times} over {_first_seen(obj, now)})" if times > 1 else age(last, now)


def _first_seen(obj: Obj, now: datetime) -> str:
    return age(obj.get("firstTimestamp") or obj.get("eventTime"), now)


def _job_status(obj: Obj, _: datetime) -> str:
    true = {c["type"] for c in (obj.get("status") or {}).get("conditions") or () if c.get("status") == "True"}
    shown = (
        ("Complete", "Complete"), ("Failed", "Failed"), ("Suspended", "Suspended"),
        ("FailureTarget", "FailureTarget"), ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    )  # fmt: skip
    for kind, word in shown:
        if kind in true:
            return word
    return "Terminating" if "deletionTimestamp" in obj["metadata"] else "Running"


def _job_duration(obj: Obj, now: datetime) -> str:
    status = obj.get("status") or {}
    if "startTime" not in status:
        return ""
    until = status.get("completionTime")
    if not until:
        return age(status["startTime"], now)
    took = datetime.fromisoformat(until) - datetime.fromisoformat(status["startTime"])
    return human_duration(int(took.total_seconds()))


_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(obj: Obj, _: datetime) -> str:
    modes = (obj.get("status") or {}).get("accessModes") or (obj.get("spec") or {}).get("accessModes") or ()
    return ",".join(_MODES.get(mode, mode) for mode in modes)


def _claim_of(obj: Obj, _: datetime) -> str:
    reference = (obj.get("spec") or {}).get("claimRef")
    return f"{reference.get('namespace')}/{reference.get('name')}" if reference else ""


def _phase(obj: Obj, _: datetime) -> str:
    phase = str((obj.get("status") or {}).get("phase", ""))
    return "Terminating" if "deletionTimestamp" in obj["metadata"] else phase


def _secret_count(obj: Obj, _: datetime) -> str:
    return str(len(obj.get("data") or {}))


def _config_count(obj: Obj, _: datetime) -> str:
    return str(len(obj.get("data") or {}) + len(obj.get("binaryData") or {}))


def _ports(obj: Obj, _: datetime) -> str:
    shown = []
    for port in (obj.get("spec") or {}).get("ports") or ():
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port['port']}{node_port}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or NONE


def _role(obj: Obj, _: datetime) -> str:
    reference = obj.get("roleRef") or {}
    return f"{reference.get('kind', '')}/{reference.get('name', '')}"


def _subjects(kind: str) -> Cell:
    def cell(obj: Obj, _: datetime) -> str:
        found = [s for s in obj.get("subjects") or () if s.get("kind") == kind]
        return ", ".join(f"{s['namespace']}/{s['name']}" if s.get("namespace") else s["name"] for s in found)

    return cell


def _text(path: str, default: str = "") -> Cell:
    read = field(path)

    def cell(obj: Obj, now: datetime) -> Any:
        value = read(obj, now)
        if isinstance(value, bool):
            return "true" if value else "false"
        return default if value is None else str(value)

    return cell


_BINDING = [
    NAME, Column("Role", _role), AGE, Column("Users", _subjects("User"), priority=WIDE),
    Column("Groups", _subjects("Group"), priority=WIDE),
    Column("ServiceAccounts", _subjects("ServiceAccount"), priority=WIDE),
]  # fmt: skip
_HOOKS = [NAME, Column("Webhooks", _count("webhooks"), "integer"), AGE]
_EVENT = [
    Column("Last Seen", _last_seen), Column("Type", field("type", "")), Column("Reason", field("reason", "")),
    Column("Object", _event_object), Column("Subobject", field("involvedObject.fieldPath", ""), priority=WIDE),
    Column("Source", _event_source, priority=WIDE), Column("Message", field("message", "")),
    Column("First Seen", _first_seen, priority=WIDE), Column("Count", _text("count", "1"), priority=WIDE),
    Column("Name", field("metadata.name"), priority=WIDE, format="name"),
]  # fmt: skip

COLUMNS: dict[tuple[str, str], list[Column]] = {
    ("", "pods"): POD_COLUMNS,
    ("", "nodes"): NODE_COLUMNS,
    ("", "events"): _EVENT,
    ("", "namespaces"): [NAME, Column("Status", field("status.phase", "")), AGE],
    ("", "configmaps"): [NAME, Column("Data", _config_count), AGE],
    ("", "secrets"): [NAME, Column("Type", field("type", "")), Column("Data", _secret_count), AGE],
    ("", "serviceaccounts"): [NAME, Column("Secrets", lambda obj, _: str(len(obj.get("secrets") or ()))), AGE],
    ("", "services"): [
        NAME, Column("Type", field("spec.type", "")), Column("Cluster-IP", field("spec.clusterIP", NONE)),
        Column("External-IP", lambda *_: NONE), Column("Port(s)", _ports), AGE,
        Column("Selector", _pairs("spec.selector"), priority=WIDE),
    ],
    ("", "persistentvolumeclaims"): [
        NAME, Column("Status", _phase), Column("Volume", field("spec.volumeName", "")),
        Column("Capacity", field("status.capacity.storage", "")), Column("Access Modes", _modes),
        Column("StorageClass", field("spec.storageClassName", "")),
        Column("VolumeAttributesClass", field("status.currentVolumeAttributesClassName", "<unset>")), AGE,
        Column("VolumeMode", field("spec.volumeMode", "<unset>"), priority=WIDE),
    ],
    ("", "persistentvolumes"): [
        NAME, Column("Capacity", field("spec.capacity.storage", "")), Column("Access Modes", _modes),
        Column("Reclaim Policy", field("spec.persistentVolumeReclaimPolicy", "")), Column("Status", _phase),
        Column("Claim", _claim_of), Column("StorageClass", field("spec.storageClassName", "")),
        Column("VolumeAttributesClass", field("spec.volumeAttributesClassName", "<unset>")),
        Column("Reason", field("status.reason", "")), AGE,
        Column("VolumeMode", field("spec.volumeMode", "<unset>"), priority=WIDE),
    ],
    ("", "replicationcontrollers"): [NAME, *_REPLICAS, AGE, *_WORKLOAD],
    ("apps", "deployments"): [
        NAME, Column("Ready", _of("status.readyReplicas", "spec.replicas")),
        Column("Up-to-date", _number("status.updatedReplicas")),
        Column("Available", _number("status.availableReplicas")), AGE, *_WORKLOAD,
    ],
    ("apps", "replicasets"): [NAME, *_REPLICAS, AGE, *_WORKLOAD],
    ("apps", "statefulsets"): [
        NAME, Column("Ready", _of("status.readyReplicas", "spec.replicas")), AGE, *_WORKLOAD[:2],
    ],
    ("apps", "daemonsets"): [
        NAME, Column("Desired", _number("status.desiredNumberScheduled"), "integer"),
        Column("Current", _number("status.currentNumberScheduled"), "integer"),
        Column("Ready", _number("status.numberReady"), "integer"),
        Column("Up-to-date", _number("status.updatedNumberScheduled"), "integer"),
        Column("Available", _number("status.numberAvailable"), "integer"),
        Column("Node Selector", _pairs("spec.template.spec.nodeSelector")), AGE, *_WORKLOAD,
    ],
    ("batch", "jobs"): [
        NAME, Column("Status", _job_status), Column("Completions", _of("status.succeeded", "spec.completions")),
        Column("Duration", _job_duration), AGE, *_WORKLOAD,
    ],
    ("batch", "cronjobs"): [
        NAME, Column("Schedule", field("spec.schedule", "")), Column("Timezone", field("spec.timeZone", NONE)),
        Column("Suspend", field("spec.suspend", False), "boolean"),
        Column("Active", _count("status.active"), "integer"),
        Column("Last Schedule", _since("status.lastScheduleTime")), AGE,
    ],
    ("policy", "poddisruptionbudgets"): [
        NAME, Column("Min Available", _text("spec.minAvailable", "N/A")),
        Column("Max Unavailable", _text("spec.maxUnavailable", "N/A")),
        Column("Allowed Disruptions", _number("status.disruptionsAllowed"), "integer"), AGE,
    ],
    ("coordination.k8s.io", "leases"): [NAME, Column("Holder", field("spec.holderIdentity", "")), AGE],
    ("scheduling.k8s.io", "priorityclasses"): [
        NAME, Column("Value", field("value"), "integer"),
        Column("Global-Default", field("globalDefault", False), "boolean"),
        AGE, Column("PreemptionPolicy", field("preemptionPolicy", "")),
    ],
    ("node.k8s.io", "runtimeclasses"): [NAME, Column("Handler", field("handler", "")), AGE],
    ("storage.k8s.io", "storageclasses"): [
        NAME, Column("Provisioner", field("provisioner", "")),
        Column("ReclaimPolicy", field("reclaimPolicy", "Delete")),
        Column("VolumeBindingMode", field("volumeBindingMode", "Immediate")),
        Column("AllowVolumeExpansion", _text("allowVolumeExpansion", "false")), AGE,
    ],
    ("storage.k8s.io", "csinodes"): [NAME, Column("Drivers", _count("spec.drivers"), "integer"), AGE],
    ("storage.k8s.io", "volumeattachments"): [
        NAME, Column("Attacher", field("spec.attacher", ""), format="name"),
        Column("PV", field("spec.source.persistentVolumeName", "")), Column("Node", field("spec.nodeName", "")),
        Column("Attached", field("status.attached", False), "boolean"), AGE,
    ],
    ("rbac.authorization.k8s.io", "clusterrolebindings"): _BINDING,
    ("rbac.authorization.k8s.io", "rolebindings"): _BINDING,
    ("rbac.authorization.k8s.io", "clusterroles"): [NAME, CREATED],
    ("rbac.authorization.k8s.io", "roles"): [NAME, CREATED],
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): _HOOKS,
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): _HOOKS,
    ("apiextensions.k8s.io", "customresourcedefinitions"): [NAME, CREATED],
    ("", "limitranges"): [NAME, CREATED],
}  # fmt: skip
"""By storage key; kinds that are not here show name and age."""
