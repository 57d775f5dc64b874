"""Anonymise pods: requests and constraints stay, names, labels and values become pseudonyms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controller.cli.dump.pseudonyms import Pseudonyms
from controller.core.api.document import Document, items, mapping, objects, text

PLAIN = ("priority", "preemptionPolicy", "terminationGracePeriodSeconds", "hostNetwork")
STATUS = ("phase", "reason")
CONDITIONS = ("PodScheduled", "Ready")
SYSTEM_CLASSES = ("system-cluster-critical", "system-node-critical")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SPREAD = ("maxSkew", "minDomains", "whenUnsatisfiable", "nodeAffinityPolicy", "nodeTaintsPolicy")


@dataclass(frozen=True, slots=True)
class PodAnonymizer:
    """Anonymises pods, and the parts that other objects share with them."""

    names: Pseudonyms

    def pod(self, pod: Document) -> dict[str, Any]:
        """Anonymise spec and status."""
        status = mapping(pod.get("status"))
        kept: dict[str, Any] = {key: status[key] for key in STATUS if key in status}
        kept["conditions"] = [
            {key: each.get(key) for key in ("type", "status", "reason") if key in each}
            for each in objects(status.get("conditions"))
            if each.get("type") in CONDITIONS
        ]
        if status.get("nominatedNodeName"):
            kept["nominatedNodeName"] = self.names.alias(text(status["nominatedNodeName"]))
        return {"spec": self.spec(mapping(pod.get("spec"))), "status": kept}

    def spec(self, spec: Document) -> dict[str, Any]:
        """Anonymise what scheduling reads of a pod's spec."""
        alias = self.names.alias
        kept: dict[str, Any] = {key: spec[key] for key in PLAIN if key in spec}
        for key in ("containers", "initContainers"):
            if spec.get(key):
                kept[key] = [self._container(each) for each in objects(spec[key])]
        if spec.get("nodeName"):
            kept["nodeName"] = alias(text(spec["nodeName"]))
        for key, public in (("priorityClassName", SYSTEM_CLASSES), ("schedulerName", ("default-scheduler",))):
            if spec.get(key):
                kept[key] = spec[key] if spec[key] in public else alias(text(spec[key]))
        if spec.get("overhead"):
            kept["overhead"] = self.amounts(spec["overhead"])
        if spec.get("resources"):
            kept["resources"] = self._resources(spec["resources"])
        if spec.get("schedulingGates"):
            kept["schedulingGates"] = [{"name": alias(text(g.get("name")))} for g in objects(spec["schedulingGates"])]
        if spec.get("resourceClaims"):
            kept["resourceClaims"] = [{"name": alias(text(c.get("name")))} for c in objects(spec["resourceClaims"])]
        for key, member in (("schedulingGroup", "podGroupName"), ("workloadRef", "name")):
            if spec.get(key):
                kept[key] = {member: alias(text(mapping(spec[key]).get(member)))}
        kept["nodeSelector"] = self.labels(spec.get("nodeSelector"))
        kept["tolerations"] = [self._toleration(each) for each in objects(spec.get("tolerations"))]
        kept["topologySpreadConstraints"] = [self._spread(c) for c in objects(spec.get("topologySpreadConstraints"))]
        kept["affinity"] = self._affinity(mapping(spec.get("affinity")))
        kept["volumes"] = [made for each in objects(spec.get("volumes")) if (made := self._volume(each))]
        return kept

    def _container(self, container: Document) -> dict[str, Any]:
        ports = [
            {key: port[key] for key in ("containerPort", "hostPort", "protocol") if key in port}
            for port in objects(container.get("ports"))
            if port.get("hostPort")
        ]
        kept = {"restartPolicy": container["restartPolicy"]} if container.get("restartPolicy") else {}
        return {"name": "c", "resources": self._resources(container.get("resources")), "ports": ports, **kept}

    def _resources(self, value: Any) -> dict[str, Any]:
        return {key: self.amounts(mapping(value).get(key)) for key in ("requests", "limits") if mapping(value).get(key)}

    def amounts(self, value: Any) -> dict[str, Any]:
        """Return the quantities by resource."""
        given = mapping(value).items()
        return {
            self.names.resource(str(name)): amount for name, amount in given if isinstance(amount, str | int | float)
        }

    def labels(self, value: Any) -> dict[str, str]:
        """Anonymise labels, or a selector by equality."""
        return {self.names.key(k): self.names.value(k, v) for k, v in mapping(value).items() if isinstance(v, str)}

    def expressions(self, value: Any, *, operators: bool = True) -> list[dict[str, Any]]:
        """Anonymise matchExpressions, or requirements."""
        kept = []
        for each in objects(value):
            key = text(each.get("key"))
            values = [self.names.value(key, v) for v in items(each.get("values")) if isinstance(v, str)]
            operator = {"operator": each.get("operator")} if operators else {}
            kept.append({"key": self.names.key(key), **operator, **({"values": values} if values else {})})
        return kept

    def selector(self, value: Any) -> dict[str, Any] | None:
        """Anonymise a LabelSelector; None, which matches nothing, stays None."""
        if not isinstance(value, Mapping):
            return None
        return {
            "matchLabels": self.labels(value.get("matchLabels")),
            "matchExpressions": self.expressions(value.get("matchExpressions")),
        }

    def node_terms(self, value: Any) -> dict[str, Any]:
        """Anonymise a NodeSelector."""
        return {"nodeSelectorTerms": [self._node_term(t) for t in objects(mapping(value).get("nodeSelectorTerms"))]}

    def _node_term(self, term: Document) -> dict[str, Any]:
        kept = (
            {"matchExpressions": self.expressions(term.get("matchExpressions"))} if term.get("matchExpressions") else {}
        )
        if term.get("matchFields"):
            kept["matchFields"] = [
                {
                    **{key: each[key] for key in ("key", "operator") if key in each},
                    "values": [self.names.alias(text(v)) for v in items(each.get("values"))],
                }
                for each in objects(term["matchFields"])
            ]
        return kept

    def _toleration(self, toleration: Document) -> dict[str, Any]:
        kept = {key: toleration[key] for key in ("operator", "effect", "tolerationSeconds") if key in toleration}
        key = text(toleration.get("key"))
        if key:
            kept["key"] = self.names.key(key)
        if toleration.get("value"):
            kept["value"] = self.names.value(key, text(toleration["value"]))
        return kept

    def _spread(self, constraint: Document) -> dict[str, Any]:
        kept = {key: constraint[key] for key in SPREAD if key in constraint}
        kept["topologyKey"] = self.names.key(text(constraint.get("topologyKey")))
        kept["labelSelector"] = self.selector(constraint.get("labelSelector"))
        kept["matchLabelKeys"] = [self.names.key(key) for key in items(constraint.get("matchLabelKeys"))]
        return kept

    def _affinity(self, affinity: Document) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        node = mapping(affinity.get("nodeAffinity"))
        if node:
            kept["nodeAffinity"] = self._node_affinity(node)
        for kind in ("podAffinity", "podAntiAffinity"):
            given = mapping(affinity.get(kind))
            if given:
                preferred = [
                    {
                        "weight": each.get("weight"),
                        "podAffinityTerm": self._pod_term(mapping(each.get("podAffinityTerm"))),
                    }
                    for each in objects(given.get(PREFERRED))
                ]
                required = [self._pod_term(each) for each in objects(given.get(REQUIRED))]
                kept[kind] = {REQUIRED: required, PREFERRED: preferred}
        return kept

    def _node_affinity(self, node: Document) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        if isinstance(node.get(REQUIRED), Mapping):
            kept[REQUIRED] = self.node_terms(node[REQUIRED])
        kept[PREFERRED] = [
            {"weight": each.get("weight"), "preference": self._node_term(mapping(each.get("preference")))}
            for each in objects(node.get(PREFERRED))
        ]
        return kept

    def _pod_term(self, term: Document) -> dict[str, Any]:
        kept: dict[str, Any] = {
            "topologyKey": self.names.key(text(term.get("topologyKey"))),
            "labelSelector": self.selector(term.get("labelSelector")),
            "namespaces": [self.names.alias(text(each)) for each in items(term.get("namespaces"))],
        }
        if isinstance(term.get("namespaceSelector"), Mapping):
            kept["namespaceSelector"] = self.selector(term["namespaceSelector"])
        for key in ("matchLabelKeys", "mismatchLabelKeys"):
            if term.get(key):
                kept[key] = [self.names.key(text(each)) for each in items(term[key])]
        return kept

    def _volume(self, volume: Document) -> dict[str, Any]:
        """Anonymise a claim's volume; others do not influence scheduling and are left out (empty)."""
        alias = self.names.alias
        name = {"name": alias(text(volume.get("name")))}
        claim = mapping(volume.get("persistentVolumeClaim"))
        if claim:
            return {**name, "persistentVolumeClaim": {"claimName": alias(text(claim.get("claimName")))}}
        if isinstance(volume.get("ephemeral"), Mapping):
            spec = mapping(mapping(volume["ephemeral"].get("volumeClaimTemplate")).get("spec"))
            kept = {"storageClassName": alias(text(spec["storageClassName"]))} if "storageClassName" in spec else {}
            return {**name, "ephemeral": {"volumeClaimTemplate": {"spec": kept}}}
        return {}
