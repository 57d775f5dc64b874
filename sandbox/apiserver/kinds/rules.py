"""Rules of built-in kinds that users run into: what a pod, template or node must have, and what may never change."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from sandbox.apiserver.errors import Cause
from sandbox.apiserver.kinds.resources import Resource
from sandbox.apiserver.verbs.selectors import label_selector_matches

Obj = dict[str, Any]
_Rule = Callable[[Obj], Iterator[Cause]]
_UpdateRule = Callable[[Obj, Obj], Iterator[Cause]]

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def kind_rules(resource: Resource, obj: Obj) -> list[Cause]:
    """What is wrong with an object of a built-in kind."""
    rule = _RULES.get((resource.group, resource.plural))
    return list(rule(obj)) if rule else []


def update_rules(resource: Resource, old: Obj, obj: Obj) -> list[Cause]:
    """What this change may not change."""
    rule = _UPDATE_RULES.get((resource.group, resource.plural))
    return list(rule(old, obj)) if rule else []


def _required(path: str, words: str = "") -> Cause:
    return Cause("FieldValueRequired", "Required value" + (f": {words}" if words else ""), path)


def _invalid(path: str, value: Any, words: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {json.dumps(value, separators=(',', ':'))}: {words}", path)


def _unsupported(path: str, value: Any, supported: tuple[str, ...]) -> Cause:
    listed = ", ".join(f'"{choice}"' for choice in supported)
    return Cause("FieldValueNotSupported", f'Unsupported value: "{value}": supported values: {listed}', path)


def _pod_spec(spec: Obj, path: str, *, policies: tuple[str, ...] = _RESTART_POLICIES) -> Iterator[Cause]:
    if not spec.get("containers"):
        yield _required(f"{path}.containers")
    names: set[str] = set()
    for field in ("initContainers", "containers"):
        for i, container in enumerate(spec.get(field) or ()):
            yield from _container(container, f"{path}.{field}[{i}]", names)
    if spec.get("restartPolicy") not in policies:
        yield _unsupported(f"{path}.restartPolicy", spec.get("restartPolicy"), policies)
    for i, toleration in enumerate(spec.get("tolerations") or ()):
        yield from _toleration(toleration, f"{path}.tolerations[{i}]")
    for i, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        where = f"{path}.topologySpreadConstraints[{i}]"
        if constraint.get("maxSkew", 0) <= 0:
            yield _invalid(f"{where}.maxSkew", constraint.get("maxSkew", 0), "must be greater than zero")
        if not constraint.get("topologyKey"):
            yield _required(f"{where}.topologyKey", "can not be empty")
        if constraint.get("whenUnsatisfiable") not in ("DoNotSchedule", "ScheduleAnyway"):
            choices = ("DoNotSchedule", "ScheduleAnyway")
            yield _unsupported(f"{where}.whenUnsatisfiable", constraint.get("whenUnsatisfiable"), choices)


def _container(container: Obj, path: str, names: set[str]) -> Iterator[Cause]:
    name = container.get("name")
    if not name:
        yield _required(f"{path}.name")
    elif name in names:
        yield Cause("FieldValueDuplicate", f'Duplicate value: "{name}"', f"{path}.name")
    names.add(name or "")
    if not container.get("image"):
        yield _required(f"{path}.image")
    for i, port in enumerate(container.get("ports") or ()):
        for field in ("containerPort", "hostPort"):
            if field in port and not 0 < port[field] < 65536:
                words = "must be between 1 and 65535, inclusive"
                yield _invalid(f"{path}.ports[{i}].{field}", port[field], words)


def _toleration(toleration: Obj, path: str) -> Iterator[Cause]:
    operator = toleration.get("operator", "Equal")
    if operator not in ("Equal", "Exists"):
        yield _unsupported(f"{path}.operator", operator, ("Equal", "Exists"))
    if not toleration.get("key") and operator == "Equal":
        yield _invalid(
            f"{path}.operator",
            operator,
            'operator must be Exists when `key` is empty, which means "match all values and all keys"',
        )
    if toleration.get("effect") and toleration["effect"] not in _EFFECTS:
        yield _unsupported(f"{path}.effect", toleration["effect"], _EFFECTS)


def _pod(obj: Obj) -> Iterator[Cause]:
    return _pod_spec(obj.get("spec") or {}, "spec")


def _node(obj: Obj) -> Iterator[Cause]:
    seen: set[tuple[Any, Any]] = set()
    for i, taint in enumerate((obj.get("spec") or {}).get("taints") or ()):
        path = f"spec.taints[{i}]"
        if not taint.get("key"):
            yield _required(f"{path}.key")
        if taint.get("effect") not in _EFFECTS:
            yield _unsupported(f"{path}.effect", taint.get("effect", ""), _EFFECTS)
        pair = (taint.get("key"), taint.get("effect"))
        if pair in seen:
            words = "taints must be unique by key and effect pair"
            yield Cause(
                "FieldValueDuplicate", f"Duplicate value: {json.dumps(taint, separators=(',', ':'))}: {words}", path
            )
        seen.add(pair)


def _workload(policies: tuple[str, ...]) -> _Rule:
    def rule(obj: Obj) -> Iterator[Cause]:
        spec = obj.get("spec") or {}
        template = spec.get("template") or {}
        selector = spec.get("selector")
        if selector is None:
            yield _required("spec.selector")
        elif not label_selector_matches(selector, (template.get("metadata") or {}).get("labels") or {}):
            labels = (template.get("metadata") or {}).get("labels") or {}
            yield _invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
        if spec.get("replicas", 0) < 0:
            yield _invalid("spec.replicas", spec["replicas"], "must be greater than or equal to 0")
        yield from _pod_spec(template.get("spec") or {}, "spec.template.spec", policies=policies)

    return rule


def _job(obj: Obj) -> Iterator[Cause]:
    template = (obj.get("spec") or {}).get("template") or {}
    yield from _pod_spec(template.get("spec") or {}, "spec.template.spec", policies=("OnFailure", "Never"))


def _budget(obj: Obj) -> Iterator[Cause]:
    spec = obj.get("spec") or {}
    if "minAvailable" in spec and "maxUnavailable" in spec:
        yield _invalid("spec", "", "minAvailable and maxUnavailable cannot be both set")


def _custom_resource_definition(obj: Obj) -> Iterator[Cause]:
    spec = obj.get("spec") or {}
    names = spec.get("names") or {}
    expected = f"{names.get('plural', '')}.{spec.get('group', '')}"
    if obj["metadata"].get("name") != expected:
        yield _invalid("metadata.name", obj["metadata"].get("name"), 'must be spec.names.plural+"."+spec.group')
    if spec.get("scope") not in ("Cluster", "Namespaced"):
        yield _unsupported("spec.scope", spec.get("scope", ""), ("Cluster", "Namespaced"))
    for field in ("plural", "kind"):
        if not names.get(field):
            yield _required(f"spec.names.{field}")
    versions = spec.get("versions") or ()
    if sum(1 for version in versions if version.get("storage")) != 1:
        yield _invalid("spec.versions", versions, "must have exactly one version marked as storage version")
    for i, version in enumerate(versions):
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            yield _required(f"spec.versions[{i}].schema.openAPIV3Schema", "schemas are required")


_RULES: dict[tuple[str, str], _Rule] = {
    ("apiextensions.k8s.io", "customresourcedefinitions"): _custom_resource_definition,
    ("", "pods"): _pod,
    ("", "nodes"): _node,
    ("apps", "deployments"): _workload(("Always",)),
    ("apps", "replicasets"): _workload(("Always",)),
    ("apps", "daemonsets"): _workload(("Always",)),
    ("apps", "statefulsets"): _workload(("Always",)),
    ("batch", "jobs"): _job,
    ("policy", "poddisruptionbudgets"): _budget,
}


def _immutable(path: str, value: Any) -> Cause:
    return _invalid(path, value, "field is immutable")


_POD_WORDS = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def _pod_update(old: Obj, obj: Obj) -> Iterator[Cause]:
    before, after = _frozen_pod_spec(old["spec"]), _frozen_pod_spec(obj["spec"])
    if old["spec"].get("schedulingGates"):
        for field in ("nodeSelector", "affinity"):
            before.pop(field, None)
            after.pop(field, None)
        gates = {gate["name"] for gate in old["spec"]["schedulingGates"]}
        for gate in obj["spec"].get("schedulingGates") or ():
            if gate["name"] not in gates:
                yield Cause(
                    "FieldValueForbidden",
                    "Forbidden: only deletion is allowed, but found new scheduling gate",
                    "spec.schedulingGates",
                )
    if before != after:
        yield Cause("FieldValueForbidden", f"Forbidden: {_POD_WORDS}", "spec")
    kept = obj["spec"].get("tolerations") or []
    if any(toleration not in kept for toleration in old["spec"].get("tolerations") or ()):
        yield Cause(
            "FieldValueForbidden",
            "Forbidden: existing toleration can not be modified except its tolerationSeconds",
            "spec.tolerations",
        )


def _frozen_pod_spec(spec: Obj) -> Obj:
    frozen = {k: v for k, v in spec.items() if k not in ("activeDeadlineSeconds", "tolerations", "schedulingGates")}
    for field in ("containers", "initContainers"):
        if field in frozen:
            frozen[field] = [{k: v for k, v in c.items() if k != "image"} for c in frozen[field] or ()]
    return frozen


def _node_update(old: Obj, obj: Obj) -> Iterator[Cause]:
    before = (old.get("spec") or {}).get("providerID")
    if before and (obj.get("spec") or {}).get("providerID") != before:
        words = 'Forbidden: node updates may not change providerID except from "" to valid'
        yield Cause("FieldValueForbidden", words, "spec.providerID")


def _fixed(*fields: str) -> _UpdateRule:
    def rule(old: Obj, obj: Obj) -> Iterator[Cause]:
        for field in fields:
            *parents, last = field.split(".")
            before, after = old, obj
            for parent in parents:
                before, after = before.get(parent) or {}, after.get(parent) or {}
            if before.get(last) != after.get(last):
                yield _immutable(field, after.get(last))

    return rule


def _frozen_data(old: Obj, obj: Obj) -> Iterator[Cause]:
    if not old.get("immutable"):
        return
    for field in ("data", "binaryData", "stringData"):
        if old.get(field) != obj.get(field):
            yield Cause("FieldValueForbidden", "Forbidden: field is immutable when `immutable` is set", field)


_UPDATE_RULES: dict[tuple[str, str], _UpdateRule] = {
    ("", "pods"): _pod_update,
    ("", "nodes"): _node_update,
    ("", "configmaps"): _frozen_data,
    ("", "secrets"): _frozen_data,
    ("apps", "deployments"): _fixed("spec.selector"),
    ("apps", "replicasets"): _fixed("spec.selector"),
    ("apps", "daemonsets"): _fixed("spec.selector"),
    ("apps", "statefulsets"): _fixed("spec.selector", "spec.serviceName", "spec.volumeClaimTemplates"),
    ("batch", "jobs"): _fixed("spec.selector", "spec.completionMode"),
    ("scheduling.k8s.io", "priorityclasses"): _fixed("value", "preemptionPolicy"),
    ("storage.k8s.io", "storageclasses"): _fixed("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"),
}
