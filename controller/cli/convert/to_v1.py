"""Convert v1alpha5 Provisioners and v1alpha1 AWSNodeTemplates to v1 NodePools and EC2NodeClasses.

Source: Karpenter's v1 API (karpenter.sh/docs/concepts/nodepools, .../nodeclasses). Defaults that differ between the
versions are written out: v1 expires nodes after 720h and consolidates by default.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from controller.core.api.document import Document, mapping, objects, text
from controller.core.api.nodetemplate import ID_KEYS, comma_list, default_ami_family
from controller.core.api.v1alpha5.disruption_rules import ANNOTATION_KEYS
from controller.core.api.v1alpha5.provisioner_defaults import default_requirements
from controller.core.untrusted_json import UnreadableJsonError, read_json

NODE_POOL_LABEL = "karpenter.sh/nodepool"
PROVISIONER_LABEL = "karpenter.sh/provisioner-name"
ALIASES = {"AL2": "al2", "AL2023": "al2023", "Bottlerocket": "bottlerocket"}
SAME_IN_CLASS = (
    "instanceProfile", "userData", "tags", "metadataOptions", "blockDeviceMappings", "detailedMonitoring", "context",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Converted:
    """Converted objects; `losses`: what could not be converted, with a remedy."""

    objects: tuple[dict[str, Any], ...]
    losses: tuple[str, ...]


class Conversion:
    """Collects what one conversion loses."""

    def __init__(self) -> None:
        self.losses: list[str] = []

    def lose(self, subject: str, what: str, remedy: str = "") -> None:
        """Note a loss, once, with its remedy."""
        line = f"{subject}: {what}; {remedy}" if remedy else f"{subject}: {what}"
        if line not in self.losses:
            self.losses.append(line)


class ToV1(Conversion):
    def __init__(self, role: str = "") -> None:
        """`role`: the nodes' IAM role, which v1 requires without an instance profile."""
        super().__init__()
        self.role = role

    def convert(self, documents: Iterable[Document]) -> Converted:
        """Return EC2NodeClasses, then the NodePools that refer to them."""
        documents = tuple(documents)
        provisioners = [each for each in documents if each.get("kind") == "Provisioner"]
        templates = {name_of(each): each for each in documents if each.get("kind") == "AWSNodeTemplate"}
        pools: list[dict[str, Any]] = []
        classes: dict[str, dict[str, Any]] = {}
        for provisioner in provisioners:
            spec = mapping(provisioner.get("spec"))
            name, of_class = self._class_of(provisioner, templates, classes)
            classes[name] = of_class
            pools.append(self._pool(provisioner, spec, name))
        used = {text(mapping(mapping(p.get("spec")).get("providerRef")).get("name")) for p in provisioners}
        for name, template in templates.items():
            if name not in used:
                classes[name] = self._class(name, mapping(template.get("spec")), None)
        return Converted((*classes.values(), *pools), tuple(self.losses))

    def _class_of(
        self, provisioner: Document, templates: Mapping[str, Document], made: Mapping[str, dict[str, Any]]
    ) -> tuple[str, dict[str, Any]]:
        """Return (name, EC2NodeClass) for a Provisioner: one class per kubelet configuration that a template is used
        with."""
        spec, own = mapping(provisioner.get("spec")), name_of(provisioner)
        kubelet = spec.get("kubeletConfiguration")
        name = text(mapping(spec.get("providerRef")).get("name"))
        source = mapping(templates.get(name, {}).get("spec"))
        if spec.get("provider") is not None:
            name, source = own, mapping(spec["provider"])
        elif name not in templates:
            self.lose(
                f"Provisioner {own}", f"AWSNodeTemplate {name or '(none)'} is not among the files", "convert both"
            )
        wanted = self._class(name or own, source, kubelet)
        held = made.get(name)
        if held is not None and held["spec"] != wanted["spec"]:
            name = f"{name}-{own}"
            wanted = {**wanted, "metadata": {"name": name}}
        return name or own, wanted

    def _pool(self, provisioner: Document, spec: Document, class_name: str) -> dict[str, Any]:
        meta, own = mapping(provisioner.get("metadata")), f"Provisioner {name_of(provisioner)}"
        annotations = dict(mapping(meta.get("annotations")))
        template: dict[str, Any] = {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": class_name},
            "requirements": [
                {**each, "key": NODE_POOL_LABEL if each.get("key") == PROVISIONER_LABEL else text(each.get("key"))}
                for each in (*objects(spec.get("requirements")), *default_requirements(spec))
            ],
            "expireAfter": _seconds(spec.get("ttlSecondsUntilExpired")),
        }
        template.update({key: spec[key] for key in ("taints", "startupTaints") if spec.get(key)})
        if grace := annotations.pop(ANNOTATION_KEYS.grace_period, None):
            template["terminationGracePeriod"] = grace
        around = {key: dict(spec[key]) for key in ("labels", "annotations") if spec.get(key)}
        pool_spec: dict[str, Any] = {
            "template": {**({"metadata": around} if around else {}), "spec": template},
            "disruption": self._disruption(spec, annotations, own),
        }
        limits = mapping(mapping(spec.get("limits")).get("resources"))
        if limits:
            pool_spec["limits"] = dict(limits)
        if spec.get("weight"):
            pool_spec["weight"] = spec["weight"]
        if annotations.pop(ANNOTATION_KEYS.consolidation_threshold, None) is not None:
            self.lose(
                own,
                f"annotation {ANNOTATION_KEYS.consolidation_threshold}",
                "see consolidationPolicy Balanced of later releases",
            )
        metadata = {"name": meta.get("name"), **({"labels": meta["labels"]} if meta.get("labels") else {})}
        kept = {key: value for key, value in annotations.items() if "last-applied-configuration" not in key}
        metadata.update({"annotations": kept} if kept else {})
        return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": metadata, "spec": pool_spec}

    def _disruption(self, spec: Document, annotations: dict[str, Any], own: str) -> dict[str, Any]:
        after_empty = spec.get("ttlSecondsAfterEmpty")
        disruption: dict[str, Any] = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": _seconds(after_empty)}
        if mapping(spec.get("consolidation")).get("enabled") is True:
            disruption = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"}
        budgets = annotations.pop(ANNOTATION_KEYS.disruption_budgets, None)
        if budgets is not None:
            try:
                disruption["budgets"] = read_json(budgets)
            except UnreadableJsonError:
                self.lose(
                    own, f"annotation {ANNOTATION_KEYS.disruption_budgets}, which is not JSON", "correct it first"
                )
        return disruption

    def _class(self, name: str, spec: Document, kubelet: Any) -> dict[str, Any]:
        own = f"AWSNodeTemplate {name}"
        class_spec: dict[str, Any] = {}
        family = text(spec.get("amiFamily"))
        if not family:
            family = default_ami_family("")
            what = f"amiFamily that is not set, which is AL2 up to Kubernetes 1.32: {family} is written"
            self.lose(own, what, "write `alias: al2@latest`, or `amiFamily: AL2`, for a cluster of 1.32 or before")
        selector = mapping(spec.get("amiSelector"))
        if selector:
            class_spec["amiFamily"] = family
            class_spec["amiSelectorTerms"] = list(_ami_terms(selector))
        elif family in ALIASES:
            class_spec["amiSelectorTerms"] = [{"alias": f"{ALIASES[family]}@latest"}]
        else:
            self.lose(
                own, f"amiFamily {family}: v1 finds no image for it", "name one in amiSelectorTerms, by id or tag"
            )
        for key in ("subnetSelector", "securityGroupSelector", "amiSelector"):
            ids = mapping(spec.get(key)).keys() & ID_KEYS
            if ids and len(mapping(spec.get(key))) > len(ids):
                self.lose(own, f"tags of {key} beside ids", "an id needs no tags; look whether all of them had those")
        class_spec["subnetSelectorTerms"] = list(_terms(mapping(spec.get("subnetSelector"))))
        class_spec["securityGroupSelectorTerms"] = list(_terms(mapping(spec.get("securityGroupSelector"))))
        class_spec.update({key: spec[key] for key in SAME_IN_CLASS if spec.get(key) is not None})
        if "instanceProfile" not in class_spec:
            if self.role:
                class_spec["role"] = self.role
            else:
                remedy = "--role NAME, or set spec.role (aws.defaultInstanceProfile has no counterpart)"
                self.lose(own, "the nodes' identity: v1 wants a role or an instance profile", remedy)
        if spec.get("launchTemplate"):
            self.lose(own, f"launchTemplate {spec['launchTemplate']}: v1 has none", "say the same by the other fields")
        if isinstance(kubelet, Mapping) and kubelet:
            class_spec["kubelet"] = {key: value for key, value in kubelet.items() if key != "containerRuntime"}
            if "containerRuntime" in kubelet:
                self.lose(own, "kubeletConfiguration.containerRuntime", "nothing to do: v1 uses containerd")
        return {
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": {"name": name},
            "spec": class_spec,
        }


def name_of(document: Document) -> str:
    return text(mapping(document.get("metadata")).get("name"))


def _seconds(value: Any) -> str:
    return "Never" if value is None else f"{value}s"


def _terms(selector: Document) -> Iterator[dict[str, Any]]:
    """Yield a term per id; else a term per combination of comma-separated tag values."""
    ids = [each for key in ID_KEYS for each in comma_list(text(selector.get(key)))]
    tags = {str(key): comma_list(text(value)) for key, value in selector.items() if key not in ID_KEYS}
    choices = [dict(zip(tags, values, strict=True)) for values in product(*tags.values())] if tags else []
    if ids:
        yield from ({"id": each} for each in ids)
    else:
        yield from ({"tags": choice} for choice in choices)


def _ami_terms(selector: Document) -> Iterator[dict[str, Any]]:
    """Yield terms as `_terms` does, with `aws::name` and `aws::owners` as the fields name and owner."""
    plain = {key: value for key, value in selector.items() if key not in ("aws::name", "aws::owners")}
    names = comma_list(text(selector.get("aws::name"))) or [""]
    owners = comma_list(text(selector.get("aws::owners"))) or [""]
    for base in list(_terms(plain)) or [{}]:
        if "id" in base:
            yield base
            continue
        for name, owner in product(names, owners):
            yield {**base, **({"name": name} if name else {}), **({"owner": owner} if owner else {})}
