"""Convert v1 NodePools and EC2NodeClasses to v1alpha5 Provisioners and v1alpha1 AWSNodeTemplates."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from controller.cli.convert.to_v1 import (
    ALIASES,
    NODE_POOL_LABEL,
    PROVISIONER_LABEL,
    SAME_IN_CLASS,
    Conversion,
    Converted,
    name_of,
)
from controller.core.api.document import Document, items, mapping, objects, text
from controller.core.api.duration import duration_seconds
from controller.core.api.labels import ARCH, CAPACITY_TYPE, INSTANCE_CATEGORY, OS
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.api.v1alpha5.disruption_rules import ANNOTATION_KEYS
from controller.core.api.v1alpha5.provisioner_defaults import default_requirements

FAMILIES = {alias: family for family, alias in ALIASES.items()}
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
UNKNOWN_IN_CLASS = {
    "associatePublicIPAddress": "set it on the subnets",
    "capacityReservationSelectorTerms": "reservations are not chosen by v1alpha1",
    "ipPrefixCount": "see the VPC CNI's own settings",
}
ANYTHING = {OS: ("linux",), ARCH: ("amd64", "arm64"), CAPACITY_TYPE: ("on-demand", "spot")}
DEFAULT_EXPIRY = "720h"


class FromV1(Conversion):
    def convert(self, documents: Iterable[Document]) -> Converted:
        """Return AWSNodeTemplates, then the Provisioners that refer to them; rules that they break are losses."""
        documents = tuple(documents)
        classes = {name_of(each): each for each in documents if each.get("kind") == "EC2NodeClass"}
        templates = [self._template(name, mapping(each.get("spec"))) for name, each in classes.items()]
        pools = [each for each in documents if each.get("kind") == "NodePool"]
        made = (*templates, *(self._provisioner(each, classes) for each in pools))
        for each in made:
            for broken in V1ALPHA5.kinds[each["kind"]].validate(each):
                self.lose(f"{each['kind']} {name_of(each)}", str(broken))
        return Converted(made, tuple(self.losses))

    def _provisioner(self, pool: Document, classes: Mapping[str, Document]) -> dict[str, Any]:
        own, spec = f"NodePool {name_of(pool)}", mapping(pool.get("spec"))
        template = mapping(spec.get("template"))
        inner, around = mapping(template.get("spec")), mapping(template.get("metadata"))
        reference = text(mapping(inner.get("nodeClassRef")).get("name"))
        converted: dict[str, Any] = {"providerRef": {"name": reference}}
        wanted = [self._requirement(own, each) for each in objects(inner.get("requirements"))]
        labels = mapping(around.get("labels"))
        converted["requirements"] = [*wanted, *_without_defaults({"requirements": wanted, "labels": labels})]
        converted.update({key: dict(mapping(around[key])) for key in ("labels", "annotations") if around.get(key)})
        converted.update({key: inner[key] for key in ("taints", "startupTaints") if inner.get(key)})
        expiry = self._whole_seconds(own, "expireAfter", inner.get("expireAfter", DEFAULT_EXPIRY))
        if expiry is not None:
            converted["ttlSecondsUntilExpired"] = expiry
        converted.update(self._emptiness(own, mapping(spec.get("disruption"))))
        converted.update(self._limits(own, spec))
        if spec.get("weight"):
            converted["weight"] = spec["weight"]
        if spec.get("replicas") is not None:
            self.lose(own, "replicas: a static pool", "keep nodes by a low-priority Deployment, or headroom")
        if reference not in classes:
            self.lose(own, f"EC2NodeClass {reference or '(none)'} is not among the files", "convert both")
        kubelet = mapping(mapping(classes.get(reference, {}).get("spec")).get("kubelet"))
        if kubelet:
            converted["kubeletConfiguration"] = {k: v for k, v in kubelet.items() if k != "maxPodsExpression"}
        metadata = self._metadata(own, pool, inner, mapping(spec.get("disruption")))
        return {"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "metadata": metadata, "spec": converted}

    def _metadata(self, own: str, pool: Document, inner: Document, disruption: Document) -> dict[str, Any]:
        meta = mapping(pool.get("metadata"))
        annotations = {k: v for k, v in mapping(meta.get("annotations")).items() if "last-applied" not in k}
        if disruption.get("budgets"):
            key = V1ALPHA5.keys.disruption_budgets
            annotations[key] = json.dumps(disruption["budgets"])
            self.lose(own, f"budgets became the annotation {key}, which Karpenter v0.27 does not know")
        if inner.get("terminationGracePeriod"):
            annotations[ANNOTATION_KEYS.grace_period] = inner["terminationGracePeriod"]
            self.lose(
                own,
                f"terminationGracePeriod became {ANNOTATION_KEYS.grace_period}, which Karpenter v0.27 does not know",
            )
        labels = {"labels": meta["labels"]} if meta.get("labels") else {}
        return {"name": meta.get("name"), **labels, **({"annotations": annotations} if annotations else {})}

    def _requirement(self, own: str, given: Document) -> dict[str, Any]:
        key, operator = text(given.get("key")), text(given.get("operator"))
        if given.get("minValues") is not None:
            self.lose(own, f"minValues of {key}", "aws.spotOfferings asks for a choice of spot offerings")
        if operator not in OPERATORS:
            self.lose(own, f"operator {operator} of {key}", f"use one of {', '.join(OPERATORS)}")
        values = items(given.get("values"))
        if "reserved" in values:
            self.lose(own, "capacity type reserved", "aws.priceRules can make reserved types the cheapest")
        requirement = {name: value for name, value in given.items() if name != "minValues"}
        requirement["key"] = PROVISIONER_LABEL if key == NODE_POOL_LABEL else key
        if "values" in requirement:
            requirement["values"] = [value for value in values if value != "reserved"]
        return requirement

    def _emptiness(self, own: str, disruption: Document) -> dict[str, Any]:
        policy = text(disruption.get("consolidationPolicy")) or "WhenEmptyOrUnderutilized"
        after = disruption.get("consolidateAfter", "0s")
        if policy == "WhenEmpty":
            seconds = self._whole_seconds(own, "consolidateAfter", after)
            return {} if seconds is None else {"ttlSecondsAfterEmpty": seconds}
        if after == "Never":
            return {}
        if after not in ("0s", ""):
            self.lose(own, f"consolidateAfter {after} with {policy}", "consolidation waits a fixed time here")
        if policy != "WhenEmptyOrUnderutilized":
            self.lose(own, f"consolidationPolicy {policy}", "see the annotation karpenter.sh/consolidation-threshold")
        return {"consolidation": {"enabled": True}}

    def _limits(self, own: str, spec: Document) -> dict[str, Any]:
        limits = dict(mapping(spec.get("limits")))
        if limits.pop("nodes", None) is not None:
            self.lose(own, "limits.nodes", "limit cpu and memory")
        return {"limits": {"resources": limits}} if limits else {}

    def _whole_seconds(self, own: str, name: str, value: Any) -> int | None:
        if value in (None, "Never"):
            return None
        try:
            return int(duration_seconds(str(value)))
        except ValueError as error:
            self.lose(own, f"{name}: {error}", "correct it")
            return None

    def _template(self, name: str, spec: Document) -> dict[str, Any]:
        own = f"EC2NodeClass {name}"
        converted: dict[str, Any] = {"amiFamily": text(spec.get("amiFamily"))} if spec.get("amiFamily") else {}
        converted.update(self._images(own, objects(spec.get("amiSelectorTerms"))))
        for old, new in (
            ("subnetSelectorTerms", "subnetSelector"),
            ("securityGroupSelectorTerms", "securityGroupSelector"),
        ):
            converted[new] = self._selector(own, old, objects(spec.get(old)))
        converted.update({key: spec[key] for key in SAME_IN_CLASS if spec.get(key) is not None})
        if spec.get("role"):
            remedy = "make an instance profile of it, and name it in instanceProfile or aws.defaultInstanceProfile"
            self.lose(own, f"role {spec['role']}", remedy)
        if spec.get("instanceStorePolicy"):
            self.lose(own, "instanceStorePolicy", f"set aws.instanceStorePolicy: {spec['instanceStorePolicy']}")
        for key, remedy in UNKNOWN_IN_CLASS.items():
            if spec.get(key) is not None:
                self.lose(own, key, remedy)
        metadata, kind = {"name": name}, "AWSNodeTemplate"
        return {"apiVersion": "karpenter.k8s.aws/v1alpha1", "kind": kind, "metadata": metadata, "spec": converted}

    def _images(self, own: str, terms: Sequence[Document]) -> dict[str, Any]:
        for term in terms:
            family, _, version = text(term.get("alias")).partition("@")
            if family:
                if version not in ("", "latest"):
                    self.lose(own, f"alias {term['alias']}: the version", "name the image's id in amiSelector")
                if family not in FAMILIES:
                    self.lose(own, f"alias {term['alias']}", f"families are {', '.join(ALIASES)}")
                return {"amiFamily": FAMILIES.get(family, "Custom")}
        if not terms:
            return {}
        plain = [{k: v for k, v in term.items() if k in ("id", "tags")} for term in terms]
        selector = self._selector(own, "amiSelectorTerms", [term for term in plain if term])
        for new, old in (("name", "aws::name"), ("owner", "aws::owners")):
            values = sorted({text(term[new]) for term in terms if term.get(new)})
            if values:
                selector[old] = ",".join(values)
        if any(term.get("ssmParameter") for term in terms):
            self.lose(own, "ssmParameter of amiSelectorTerms", "name the image's id or tags")
        return {"amiSelector": selector}

    def _selector(self, own: str, name: str, terms: Sequence[Document]) -> dict[str, str]:
        """Return one selector for alternative terms: possible when all are ids, or they differ in one tag's value."""
        ids = [text(term["id"]) for term in terms if term.get("id")]
        if ids:
            if len(ids) < len(terms):
                self.lose(own, f"{name} by tags beside ids", "select all by id, or all by tag")
            return {"aws-ids": ",".join(ids)}
        tags = [{str(k): str(v) for k, v in mapping(term.get("tags")).items()} for term in terms]
        tags = [each for each in tags if each]
        if any(term.get("name") for term in terms) and name == "securityGroupSelectorTerms":
            self.lose(own, f"{name} by name", "select by tag or id")
        if not tags:
            return {}
        differing = {key for each in tags for key in each if any(other.get(key) != each[key] for other in tags)}
        if len(differing) > 1 or any(set(each) != set(tags[0]) for each in tags):
            self.lose(own, f"{name}: all terms but the first: they differ in several tags", "give them the same tags")
            return tags[0]
        return {key: ",".join(dict.fromkeys(each[key] for each in tags)) for key in tags[0]}


def _without_defaults(spec: Document) -> list[dict[str, Any]]:
    """Return the requirements that prevent v1alpha5's defaults where v1 has none and so allows any value."""
    absent = [each["key"] for each in default_requirements(spec)]
    requirements: list[dict[str, Any]] = [
        {"key": key, "operator": "In", "values": list(ANYTHING[key])} for key in absent if key in ANYTHING
    ]
    if INSTANCE_CATEGORY in absent:
        requirements.append({"key": INSTANCE_CATEGORY, "operator": "Exists"})
    return requirements
