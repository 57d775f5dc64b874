"""The Provisioners and AWSNodeTemplates of a stack, judged by the rules that the controller itself goes by.

A bad object fails at preview with the message that the controller would give, under the key path of the stack file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from components.config.controller import ObjectConfig
from components.config.keys import Document
from components.config.schema import StackConfig
from controller.core.api.front_end import ApiKind
from controller.core.api.frozen import FrozenMap
from controller.core.api.nodetemplate import has_al2
from controller.core.api.strict import Report, did_you_mean, kind_of
from controller.core.api.v1alpha5 import V1ALPHA5

POOL, NODE_TEMPLATE, KINDS = V1ALPHA5.pool, V1ALPHA5.node_template, V1ALPHA5.kinds


def stack_objects(config: StackConfig, folder: Path, report: Report, *, all_read: bool = True) -> tuple[Document, ...]:
    """Every object of the stack, templates first, each valid; problems go to `report`.

    `all_read`: every template could be read, so that a reference to another is a problem.
    """
    placed = [
        *_configured(NODE_TEMPLATE, config.node_templates, "nodeTemplates"),
        *_configured(POOL, config.provisioners, "provisioners"),
        *_from_files(config.manifests, folder, report),
    ]
    for path, document in placed:
        for problem in KINDS[document["kind"]].validate(document):
            where, _, rest = problem.path.partition("spec")
            at = f"{path}.spec{rest}" if not where and problem.path else f"{path}.{problem.path}".rstrip(".")
            in_file = path.startswith("manifests")
            report.add(at if in_file else at.replace(".metadata.", ".", 1), problem.message, problem.remedy)
    _check_names(placed, report)
    if all_read:
        _check_references(placed, report)
    return tuple(sorted((d for _, d in placed), key=lambda d: (d["kind"], str(d["metadata"].get("name")))))


def image_warnings(objects: Iterable[Document], version: str) -> list[str]:
    """Node templates whose AMI family has no images for the cluster's Kubernetes version."""
    return [
        f"AWSNodeTemplate {each['metadata']['name']}: EKS has no AL2 image for Kubernetes {version}, so that it "
        "launches nothing; set spec.amiFamily to AL2023, or set spec.amiSelector"
        for each in objects
        if each["kind"] == NODE_TEMPLATE.name
        and each["spec"].get("amiFamily") == "AL2"
        and not (each["spec"].get("amiSelector") or each["spec"].get("launchTemplate"))
        and not has_al2(version)
    ]


def _configured(kind: ApiKind[Any], objects: Iterable[ObjectConfig], path: str) -> list[tuple[str, Document]]:
    placed = []
    for index, each in enumerate(objects):
        metadata: dict[str, Any] = {"name": each.name}
        if each.labels:
            metadata["labels"] = dict(each.labels)
        if each.annotations:
            metadata["annotations"] = dict(each.annotations)
        document = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, "spec": dict(each.spec)}
        placed.append((f"{path}[{index}]", FrozenMap(document)))
    return placed


def _from_files(names: Iterable[str], folder: Path, report: Report) -> list[tuple[str, Document]]:
    placed = []
    for index, name in enumerate(names):
        path = f"manifests[{index}]"
        try:
            documents = [each for each in yaml.safe_load_all((folder / name).read_text()) if each is not None]
        except OSError as error:
            report.add(path, f"{name!r} cannot be read: {error.strerror}", "paths count from the project's folder")
            continue
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            report.add(path, f"{name!r} is not YAML: {' '.join(str(error).split())}")
            continue
        for number, document in enumerate(documents, start=1):
            at = f"{path} ({name}, document {number})"
            if _ours(document, at, report):
                placed.append((at, FrozenMap(document)))
    return placed


def _ours(document: object, path: str, report: Report) -> bool:
    if not isinstance(document, Mapping):
        report.add(path, f"must be an object, not {kind_of(document)}")
        return False
    name, api_version = document.get("kind"), document.get("apiVersion")
    kind = KINDS.get(str(name))
    if kind is None:
        report.add(f"{path}.kind", f"{name!r} does not belong here", did_you_mean(str(name), KINDS))
        return False
    if api_version != kind.api_version:
        report.add(f"{path}.apiVersion", f"{api_version!r} is not supported", f"use {kind.api_version}")
        return False
    if not isinstance(document.get("metadata"), Mapping):
        report.add(f"{path}.metadata", "is missing", "give the object a name")
        return False
    return True


def _check_names(placed: Iterable[tuple[str, Document]], report: Report) -> None:
    seen: dict[tuple[str, str], str] = {}
    for path, document in placed:
        name = (document["kind"], str(document["metadata"].get("name")))
        if name in seen:
            report.add(path, f"{name[0]} {name[1]!r} is there twice", f"the other is {seen[name]}")
        seen.setdefault(name, path)


def _check_references(placed: Sequence[tuple[str, Document]], report: Report) -> None:
    templates = [str(d["metadata"].get("name")) for _, d in placed if d["kind"] == NODE_TEMPLATE.name]
    for path, document in placed:
        name = V1ALPHA5.template_name(document) if document["kind"] == POOL.name else ""
        if name and name not in templates:
            remedy = did_you_mean(name, templates) if templates else "add it to nodeTemplates"
            report.add(f"{path}.spec.providerRef.name", f"no {NODE_TEMPLATE.name} is called {name!r}", remedy)
