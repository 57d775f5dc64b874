"""The Provisioners, templates, settings and region of a stack configuration file (stacks/Pulumi.NAME.yaml)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from controller.cli.inputs.files import LocatedObject, read_files
from controller.core.api.document import items, mapping, text
from controller.core.api.front_end import ApiKind
from controller.core.api.settings.settings_table import SETTINGS
from controller.core.api.strict import Report
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.settings import CONFIG_MAP

KINDS: Mapping[str, ApiKind[Any]] = {"nodeTemplates": V1ALPHA5.node_template, "provisioners": V1ALPHA5.pool}
PROJECT = "nodeless:"


def stack_objects(stack: LocatedObject, report: Report) -> Iterator[LocatedObject]:
    """Yield the objects that the stack would apply, with its settings as a ConfigMap."""
    config = mapping(stack.document.get("config"))
    values = {str(key).removeprefix(PROJECT): value for key, value in config.items() if str(key).startswith(PROJECT)}
    for key, kind in KINDS.items():
        for index, entry in enumerate(items(values.get(key))):
            where = f"{stack.where}: {PROJECT}{key}[{index}]"
            if not isinstance(entry, Mapping):
                report.add(where, "must be an object with name and spec")
                continue
            metadata = {name: entry[name] for name in ("name", "labels", "annotations") if entry.get(name) is not None}
            document = {
                "apiVersion": kind.api_version,
                "kind": kind.name,
                "metadata": metadata,
                "spec": entry.get("spec"),
            }
            yield LocatedObject(document, where)
    folder = project_folder(stack)
    for name in items(values.get("manifests")):
        yield from read_files([str(folder / str(name))], report)
    yield LocatedObject({"kind": "ConfigMap", "metadata": {"name": CONFIG_MAP}, "data": _settings(values)}, stack.where)


def stack_region(stack: LocatedObject) -> str:
    """Return the key aws:region, or empty."""
    return text(mapping(stack.document.get("config")).get("aws:region"))


def project_folder(stack: LocatedObject) -> Path:
    """Return the folder of Pulumi.yaml, to which paths in the configuration are relative; else the file's folder."""
    file = Path(stack.where.partition(" (document")[0])
    above = (folder for folder in file.absolute().parents if (folder / "Pulumi.yaml").exists())
    return next(above, file.parent)


def _settings(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the stack's settings under the ConfigMap's keys: `enablePodEni` is `aws.enablePodENI`."""
    known = {key.rpartition(".")[2].lower(): key for key in SETTINGS}
    data = {"aws.clusterName": text(mapping(values.get("cluster")).get("name")) or "simulated"}
    for name, value in mapping(values.get("settings")).items():
        key = known.get(str(name).lower())
        if key is not None:
            data[key] = value if isinstance(value, str) else json.dumps(value)
    return data
