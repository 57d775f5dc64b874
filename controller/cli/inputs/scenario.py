"""Build a cluster state and settings from files, a dump or a live cluster.

Every input becomes the JSON documents that watches deliver and goes through the same `Cluster`, so the plan is the one
that the controller would make.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controller.cli.inputs.files import LocatedObject
from controller.cli.inputs.objects import parse_settings, services_of
from controller.cli.inputs.workload_pods import WORKLOADS, ExpandedWorkloads, ReplicaOverrides, expand, namespace_of
from controller.core.api.document import Document, mapping, text
from controller.core.api.strict import Report, did_you_mean
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.state.change import Change, ChangeType
from controller.core.state.cluster import Cluster
from controller.core.state.kinds import KINDS
from controller.core.state.snapshot import Snapshot
from controller.core.zones.services import Service
from controller.errors import ValidationError
from controller.settings import CONFIG_MAP, Settings

READ_TOO = ("HorizontalPodAutoscaler", "ConfigMap", "Service")
EBS = "ebs.csi.aws.com"
SIMULATED = "simulated"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A cluster state to plan for. `notes`: what was assumed or left out."""

    name: str
    snapshot: Snapshot
    settings: Settings
    notes: tuple[str, ...] = ()
    services: tuple[Service, ...] = ()


def scenario(
    name: str, located: Sequence[LocatedObject], report: Report, overrides: ReplicaOverrides | None = None
) -> Scenario | None:
    """Build a scenario; None, with problems in `report`, when an object is wrong."""
    before = len(report.problems)
    check_configuration(located, report)
    settings = _settings(located, report)
    overrides = overrides or ReplicaOverrides()
    running = [each for each in located if each.kind == "Pod" and bound(each.document)]
    waiting = [each for each in located if each.kind != "Pod" or not bound(each.document)]
    expanded = expand(waiting, overrides, report)
    _check_overrides(overrides, expanded, waiting, report)
    if len(report.problems) > before:
        return None
    documents = _documents(located, running, expanded)
    notes = (*_without_pods(waiting, expanded), *_assume_classes(documents), *_not_looked_at(located))
    return Scenario(name, _cluster(documents, settings).snapshot(), settings, notes, services_of(located))


def cluster_of(located: Sequence[LocatedObject]) -> tuple[Cluster, Settings]:
    """Build the state of objects as they are; invalid ones are in the snapshot's `invalid`.

    Raises ValidationError for wrong settings.
    """
    report = Report()
    settings = _settings(located, report)
    if report.problems:
        raise ValidationError(CONFIG_MAP, report.problems)
    documents = {kind: [each.document for each in located if each.kind == kind] for kind in KINDS}
    return _cluster(documents, settings), settings


def _cluster(documents: Mapping[str, Sequence[Document]], settings: Settings) -> Cluster:
    cluster = Cluster(
        initialization_seconds=settings.initialization_deadline_seconds, device_classes=settings.device_classes
    )
    for kind, members in documents.items():
        cluster.apply(Change(kind, ChangeType.REPLACED, tuple(members)))
    return cluster


def bound(pod: Document) -> bool:
    return bool(mapping(pod.get("spec")).get("nodeName"))


def _documents(
    located: Iterable[LocatedObject], running: Iterable[LocatedObject], expanded: ExpandedWorkloads
) -> dict[str, list[Document]]:
    documents: dict[str, list[Document]] = {kind: [] for kind in KINDS}
    for each in located:
        if each.kind in documents and each.kind != "Pod":
            documents[each.kind].append(each.document)
    documents["Pod"] = [*(each.document for each in running), *expanded.pods]
    documents["PersistentVolumeClaim"].extend(expanded.claims)
    return documents


def check_configuration(located: Iterable[LocatedObject], report: Report) -> None:
    """Report broken rules of Provisioners and templates, duplicate names and references to missing templates.

    Kinds of a later Karpenter in place of Provisioners, too: nothing would be planned with them.
    """
    kinds, template_kind, located = V1ALPHA5.kinds, V1ALPHA5.node_template.name, tuple(located)
    if not any(each.kind == V1ALPHA5.pool.name for each in located):
        for each in located:
            if each.kind == "NodePool":
                remedy = (
                    "`nodeless convert FILE` writes NodePools and EC2NodeClasses as Provisioners and AWSNodeTemplates"
                )
                report.add(each.in_words, "is of a later Karpenter, and not planned with", remedy)
    chosen = [each for each in located if each.kind in kinds]
    seen: dict[tuple[str, str], str] = {}
    for each in chosen:
        kind = kinds[each.kind]
        if each.document.get("apiVersion") != kind.api_version:
            given = each.document.get("apiVersion")
            report.add(f"{each.where}: apiVersion", f"{given!r} is not supported", f"use {kind.api_version}")
            continue
        for problem in kind.validate(each.document):
            report.add(f"{each.in_words}: {problem.path}", problem.message, problem.remedy)
        first = seen.setdefault((each.kind, each.name), each.where)
        if first is not each.where:
            report.add(each.where, f"{each.kind} {each.name!r} is defined twice", f"the other is in {first}")
    names = [name for kind_name, name in seen if kind_name == template_kind]
    for each in chosen:
        wanted = V1ALPHA5.template_name(each.document) if each.kind == V1ALPHA5.pool.name else ""
        if wanted and wanted not in names:
            remedy = did_you_mean(wanted, names) if names else "add it to the files"
            report.add(f"{each.in_words}: spec.providerRef.name", f"no {template_kind} is called {wanted!r}", remedy)


def _check_overrides(
    overrides: ReplicaOverrides, expanded: ExpandedWorkloads, located: Iterable[LocatedObject], report: Report
) -> None:
    names = {each.name for each in located if each.kind in WORKLOADS}
    for name in sorted(set(overrides.replicas) - expanded.scaled):
        remedy = did_you_mean(name.rpartition("/")[2], names) if names else "there is no workload in the files"
        report.add(f"--replicas {name}", "no workload has this name", remedy)


def _settings(located: Iterable[LocatedObject], report: Report) -> Settings:
    """Return the ConfigMap's settings, or the defaults without one."""
    for each in located:
        if each.kind == "ConfigMap" and each.name == CONFIG_MAP:
            try:
                return parse_settings(each.document, SIMULATED)
            except ValidationError as error:
                for problem in error.problems:
                    report.add(f"{each.where}: {CONFIG_MAP}: {problem.path}", problem.message, problem.remedy)
    return Settings(cluster_name=SIMULATED)


def _assume_classes(documents: Mapping[str, list[Document]]) -> Iterable[str]:
    """Add EBS storage classes for those that claims name and the files lack; yields a note for each.

    Nothing is assumed for a live cluster or a dump, which have their classes.
    """
    if documents["Node"] or documents["StorageClass"]:
        return
    wanted = {mapping(claim.get("spec")).get("storageClassName") for claim in documents["PersistentVolumeClaim"]}
    for name in sorted({text(each) for each in wanted}):
        default = {} if name else {"storageclass.kubernetes.io/is-default-class": "true"}
        documents["StorageClass"].append(_ebs(name or "default", default))
        what = f"The StorageClass {name}" if name else "The default StorageClass"
        yield f"{what} is not among the files: EBS in the pod's zone is assumed"


def _ebs(name: str, annotations: Mapping[str, str]) -> dict[str, Any]:
    metadata = {"name": name, "annotations": dict(annotations)}
    return {"metadata": metadata, "provisioner": EBS, "volumeBindingMode": "WaitForFirstConsumer"}


def _without_pods(waiting: Iterable[LocatedObject], expanded: ExpandedWorkloads) -> Iterable[str]:
    """Yield what is missing where there is nothing to plan for."""
    if expanded.pods:
        return
    empty = [f"{namespace_of(each.document)}/{each.name}" for each in waiting if each.kind in WORKLOADS]
    if empty:
        yield f"No pods to place: 0 replicas of {', '.join(empty)}; --replicas {empty[0]}=5 plans for some"
    else:
        yield "No pods to place: there is no workload and no pending pod"


def _not_looked_at(located: Iterable[LocatedObject]) -> Iterable[str]:
    known = {*KINDS, *WORKLOADS, *READ_TOO}
    others = Counter(each.kind for each in located if each.kind not in known)
    if others:
        listed = ", ".join(f"{count} {kind}" for kind, count in sorted(others.items()))
        yield f"Ignored, without influence on nodes: {listed}"
