"""Checks of the cluster: CRDs, our objects, the Lease, webhooks, other autoscalers, PodDisruptionBudgets."""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

import yaml

from controller.cli.check.findings import Check, Finding, ok, problem, unknown, warning
from controller.cli.cluster.node_facts import NODE_POOL
from controller.cli.cluster.service_report import present_services
from controller.cli.formatting import age, count
from controller.core.api.document import Document, items, mapping, objects, text, timestamp, whole
from controller.core.api.labels import PROVISIONER_NAME
from controller.core.api.provisioner import Provisioner
from controller.core.api.workloads import PodDisruptionBudget
from controller.core.provisioner_warnings import overlap, provisioner_warnings
from controller.core.scheduling.label_selectors import matches
from controller.core.state.snapshot import Snapshot
from controller.core.zones.services import Service
from controller.errors import NotFoundError, Problem
from controller.kube import resources as kinds
from controller.kube.client import KubeClient
from controller.kube.lease import LEASE_NAME

CRDS = ("provisioners.karpenter.sh", "awsnodetemplates.karpenter.k8s.aws")
LATER_CRDS = ("nodepools.karpenter.sh", "nodeclaims.karpenter.sh")
OUR_GROUPS = ("karpenter.sh", "karpenter.k8s.aws")
CERTIFICATE_DAYS = 1
"""The leader renews two days before the end, so that a certificate with less than this was missed."""
OLDEST_MINOR = 23
"""Of Kubernetes 1.x: the oldest that Karpenter v0.27 supports."""


@dataclass(frozen=True, slots=True)
class ClusterCheck:
    """The checks of one cluster; `now` in Unix seconds, `namespace` the controller's."""

    kube: KubeClient
    snapshot: Snapshot
    namespace: str
    now: float
    services: tuple[Service, ...] = ()
    instance_types: Collection[str] = ()
    """Those that some region sells; empty: not known, and no type is warned of."""

    def checks(self) -> tuple[tuple[str, Check], ...]:
        """Return (subject, check), in the order to show."""
        return (
            ("Kubernetes", self.version),
            ("CRDs", self.crds),
            ("Provisioners", self.objects),
            ("Leader", self.lease),
            ("Webhooks", self.webhooks),
            ("Other autoscalers", self.others),
            ("Disruption", self.budgets),
            ("Services", self.zones),
        )

    def version(self) -> Iterator[Finding]:
        version = self.kube.version()
        minor = "".join(c for c in text(version.get("minor")) if c.isdigit())
        if minor and int(minor) < OLDEST_MINOR:
            yield problem(
                "Kubernetes", f"{version.get('gitVersion')} is too old", f"upgrade to 1.{OLDEST_MINOR} or newer"
            )
        else:
            yield ok("Kubernetes", f"{version.get('gitVersion')} at {self.kube.connection.server}")

    def crds(self) -> Iterator[Finding]:
        """Check that CRDs exist, serve our version and have this release's fields."""
        for name in CRDS:
            try:
                crd = self.kube.get(kinds.CUSTOM_RESOURCE_DEFINITIONS, name)
            except NotFoundError:
                yield problem("CRDs", f"{name} is missing", "apply crds/*.yaml of this release, or `pulumi up`")
                continue
            yield from self._crd(name, crd)

    def _crd(self, name: str, installed: Document) -> Iterator[Finding]:
        ours = _shipped(name)
        have = {text(v.get("name")): v for v in objects(mapping(installed.get("spec")).get("versions"))}
        for version in objects(mapping(ours.get("spec")).get("versions")):
            known = have.get(text(version.get("name")))
            if known is None or known.get("served") is not True:
                yield problem("CRDs", f"{name} does not serve {version['name']}", "apply crds/*.yaml of this release")
                return
            gone = sorted(_paths(version.get("schema")) - _paths(known.get("schema")))
            if gone:
                lacking = f"{', '.join(gone[:3])}{' ...' if len(gone) > 3 else ''}"
                yield warning("CRDs", f"{name} is older than this release: it lacks {lacking}", "apply crds/*.yaml")
                return
        stored = [text(each) for each in items(mapping(installed.get("status")).get("storedVersions"))]
        yield ok("CRDs", f"{name} serves {', '.join(have)}{f'; stored: {stored[0]}' if len(stored) == 1 else ''}")

    def objects(self) -> Iterator[Finding]:
        """Check that Provisioners and templates are valid and refer to each other."""
        for (kind, name), invalid in sorted(self.snapshot.invalid.items()):
            if kind in ("Provisioner", "AWSNodeTemplate"):
                yield problem(
                    f"{kind} {name}", invalid.error.replace(" | ", "\n"), "correct it; until then it is ignored"
                )
        if not self.snapshot.provisioners:
            yield problem("Provisioners", "there is none: no node will be launched", "see docs/examples")
        for name, provisioner in self.snapshot.provisioners.items():
            reference = provisioner.provider_ref
            if reference and reference not in self.snapshot.node_templates:
                remedy = "create it, or correct spec.providerRef.name"
                yield problem(
                    f"Provisioner {name}", f"AWSNodeTemplate {reference} does not exist or is not valid", remedy
                )
            elif warnings := self._warnings(provisioner):
                for each in warnings:
                    yield warning(f"Provisioner {name}", f"{each.path}: {each.message}", each.remedy)
            else:
                yield ok(f"Provisioner {name}", "valid")
        yield from self._conditions()

    def _warnings(self, provisioner: Provisioner) -> tuple[Problem, ...]:
        """Return what admission warns of; each pair of Provisioners is reported once."""
        later = [each for name, each in self.snapshot.provisioners.items() if name > provisioner.name]
        return (*provisioner_warnings(provisioner, self.instance_types), *overlap(provisioner, later))

    def _conditions(self) -> Iterator[Finding]:
        """Check the conditions of objects that are valid by themselves: AWS has no such subnet, for instance."""
        for resource in (kinds.PROVISIONERS, kinds.AWS_NODE_TEMPLATES):
            for each in self._listed(resource):
                name = text(mapping(each.get("metadata")).get("name"))
                if (resource.kind, name) in self.snapshot.invalid:
                    continue
                for condition in objects(mapping(each.get("status")).get("conditions")):
                    if text(condition.get("type")) == "Active" and text(condition.get("status")) == "False":
                        why = text(condition.get("message")).replace(" | ", "\n")
                        remedy = "correct it; the controller looks again every 30 seconds"
                        yield problem(f"{resource.kind} {name}", f"Active is False: {why}", remedy)

    def _listed(self, resource: kinds.Resource) -> list[Document]:
        try:
            return list(self.kube.list(resource))
        except NotFoundError:
            return []  # no CRD, which is a finding of its own

    def lease(self) -> Iterator[Finding]:
        try:
            spec = mapping(self.kube.get(kinds.LEASES, LEASE_NAME, self.namespace).get("spec"))
        except NotFoundError:
            remedy = "is the controller installed, and in this namespace (--namespace)?"
            yield problem("Leader", f"there is no Lease {self.namespace}/{LEASE_NAME}: no controller acts", remedy)
            return
        renewed = timestamp(spec.get("renewTime")) or 0.0
        holder, lasts = text(spec.get("holderIdentity")), whole(spec.get("leaseDurationSeconds"), 15)
        if not holder or self.now - renewed > 2 * lasts:
            last = f"last renewed {age(self.now - renewed)} ago" if renewed else "never renewed"
            yield problem(
                "Leader", f"nobody leads: {holder or 'no holder'}, {last}", "see the controller's pods and logs"
            )
        else:
            yield ok("Leader", f"{holder}, renewed {age(self.now - renewed)} ago")

    def webhooks(self) -> Iterator[Finding]:
        """Check that our webhooks have an existing Service and a certificate authority that is still valid."""
        seen = 0
        for resource in (kinds.MUTATING_WEBHOOKS, kinds.VALIDATING_WEBHOOKS):
            for configuration in self.kube.list(resource):
                for hook in objects(configuration.get("webhooks")):
                    if _ours(hook):
                        seen += 1
                        yield from self._webhook(f"Webhook {text(hook.get('name'))}", hook)
        if not seen:
            yield warning("Webhooks", "none is installed: invalid Provisioners are not refused when applied")

    def _webhook(self, subject: str, hook: Document) -> Iterator[Finding]:
        client = mapping(hook.get("clientConfig"))
        bundle, service = text(client.get("caBundle")), mapping(client.get("service"))
        if service:
            name, namespace = text(service.get("name")), text(service.get("namespace"))
            try:
                self.kube.get(kinds.SERVICES, name, namespace)
            except NotFoundError:
                yield problem(
                    subject, f"its Service {namespace}/{name} does not exist", "install it, or delete the webhook"
                )
                return
        if not bundle:
            yield problem(
                subject, "has no caBundle: the API server cannot call it", "the leader fills it in; is there one?"
            )
            return
        left = days_left(bundle, self.now)
        if left is None:
            yield unknown(subject, "its caBundle cannot be read")
        elif left < CERTIFICATE_DAYS:
            remedy = "the leader renews it two days before; see its log, or delete the Secret karpenter-cert"
            ends = f"ends in {left:.1f} days" if left > 0 else f"ended {-left:.1f} days ago"
            yield problem(subject, f"its certificate authority {ends}", remedy)
        else:
            yield ok(subject, f"its certificate authority is valid for {left:.1f} days")

    def others(self) -> Iterator[Finding]:
        """Check for other controllers that launch or remove nodes."""
        findings = [*self._later_karpenter(), *self._deployments(), *self._foreign_nodes()]
        yield from findings or [ok("Other autoscalers", "none seen")]

    def _later_karpenter(self) -> Iterator[Finding]:
        for name in LATER_CRDS:
            try:
                self.kube.get(kinds.CUSTOM_RESOURCE_DEFINITIONS, name)
            except NotFoundError:
                continue
            remedy = "separate their pods (taints or a node selector), or convert its NodePools: nodeless convert"
            yield warning("Other autoscalers", f"CRD {name}: a later Karpenter is or was installed", remedy)
            return

    def _deployments(self) -> Iterator[Finding]:
        for each in self.kube.list(kinds.DEPLOYMENTS):
            metadata, spec = mapping(each.get("metadata")), mapping(each.get("spec"))
            containers = objects(mapping(mapping(spec.get("template")).get("spec")).get("containers"))
            images = [text(one.get("image")) for one in containers]
            name = f"{metadata.get('namespace')}/{metadata.get('name')}"
            if spec.get("replicas") == 0:
                continue
            if any("cluster-autoscaler" in image for image in images):
                remedy = "both launch nodes for the same pending pods; scale it to 0, or separate the pods by a taint"
                yield warning("Other autoscalers", f"Cluster Autoscaler is running: Deployment {name}", remedy)
            elif any("karpenter/controller" in image for image in images):
                remedy = "two controllers launch nodes for the same Provisioners; scale one to 0"
                yield problem("Other autoscalers", f"Karpenter is running: Deployment {name}", remedy)

    def _foreign_nodes(self) -> Iterator[Finding]:
        shared = [
            node.name
            for node in self.snapshot.nodes.values()
            if PROVISIONER_NAME in node.node.labels and NODE_POOL in node.node.labels
        ]
        if shared:
            listed = ", ".join(shared[:3])
            yield problem("Other autoscalers", f"nodes that a Provisioner and a NodePool both claim: {listed}")

    def budgets(self) -> Iterator[Finding]:
        blocked = sorted(
            f"{each.namespace}/{each.name}"
            for each in self.snapshot.budgets.values()
            if not each.disruptions_allowed and self._holds(each)
        )
        if blocked:
            listed = f"{', '.join(blocked[:5])}{' ...' if len(blocked) > 5 else ''}"
            remedy = "nodes with their pods are not removed until that changes; see `nodeless explain node`"
            yield warning("Disruption", f"PodDisruptionBudgets that allow nothing now: {listed}", remedy)
        else:
            yield ok("Disruption", f"{count(len(self.snapshot.budgets), 'PodDisruptionBudget')}, none blocks a node")

    def zones(self) -> Iterator[Finding]:
        judged = present_services(self.snapshot, self.services)
        for each in judged:
            subject = f"Service {'/'.join(each.service.key)}"
            if each.kept:
                yield ok(subject, each.verdict)
            else:
                yield warning(subject, each.verdict, "; ".join(each.remedies))
        if not judged:
            yield ok("Services", "none asks for topology hints or a traffic distribution")

    def _holds(self, budget: PodDisruptionBudget) -> bool:
        return any(
            pod.namespace == budget.namespace and matches(budget.selector, pod.labels)
            for node in self.snapshot.nodes.values()
            if node.provisioner_name
            for pod in node.pods
        )


def _ours(hook: Document) -> bool:
    rules = objects(hook.get("rules"))
    return any(group in OUR_GROUPS for rule in rules for group in items(rule.get("apiGroups")))


def _shipped(name: str) -> Mapping[str, Any]:
    """Return this release's CRD, from the package or the repository."""
    plural, _, group = name.partition(".")
    packaged = resources.files("controller").joinpath("crds", f"{group}_{plural}.yaml")
    source = resources.files("controller").joinpath("..", "crds", f"{group}_{plural}.yaml")
    crd: Mapping[str, Any] = yaml.safe_load((packaged if packaged.is_file() else source).read_text())
    return crd


def _paths(schema: Any, path: str = "") -> set[str]:
    """Return every property of a schema, by path."""
    paths: set[str] = set()
    if isinstance(schema, Mapping):
        for name, member in mapping(schema.get("properties")).items():
            paths.add(f"{path}.{name}".lstrip("."))
            paths |= _paths(member, f"{path}.{name}")
        for key in ("items", "additionalProperties", "openAPIV3Schema"):
            paths |= _paths(schema.get(key), path)
    return paths


def days_left(bundle: str, now: float) -> float | None:
    """Return the days until the last certificate of a base64 PEM bundle expires, negative after;
    None for no certificate.

    The last one counts: earlier authorities stay in the bundle until they expire. `now` in Unix seconds.
    """
    from cryptography import x509  # slow to import, needed here alone

    try:
        certificates = x509.load_pem_x509_certificates(base64.b64decode(bundle))
    except ValueError:
        return None
    return max((one.not_valid_after_utc.timestamp() - now) / 86_400 for one in certificates)
