"""The ConfigMap `karpenter-global-settings`: the stack's settings under the names that the controller reads."""

from __future__ import annotations

from typing import Any

from components.config.keys import key_fields
from components.config.settings import SettingsConfig, text_of
from components.documents.labels import labels
from controller.core.api.settings.settings_table import CONFIG_MAP

LOGGING = "config-logging"
"""Levels by component, which change while the controller runs."""


def settings_data(
    settings: SettingsConfig, cluster: str, instance_profile: str, queue: str, cluster_arn: str
) -> dict[str, str]:
    """The ConfigMap's data; what is left at its default is left out, except what tells where the cluster is."""
    data = {
        "aws.clusterArn": cluster_arn,
        "aws.clusterName": cluster,
        "aws.defaultInstanceProfile": instance_profile,
        "aws.interruptionQueueName": queue,
    }
    for each in key_fields(SettingsConfig):
        value = getattr(settings, each.attribute)
        if value != each.default:
            data[each.rule.source] = text_of(value)
    return dict(sorted((name, value) for name, value in data.items() if value != ""))


def settings_map(namespace: str, data: dict[str, str]) -> dict[str, Any]:
    """The object."""
    metadata = {"name": CONFIG_MAP, "namespace": namespace, "labels": labels()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def logging_map(namespace: str, level: str) -> dict[str, Any]:
    """The level of all that is logged; `loglevel.COMPONENT` beside it sets one component's."""
    metadata = {"name": LOGGING, "namespace": namespace, "labels": labels()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"loglevel.controller": level}}
