"""The Kubernetes objects of a stack, whoever applies them: the program, or a user of `nodeless manifests`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from components.config.schema import StackConfig
from components.documents import addons, controller, fargate
from components.documents.account import Account
from components.documents.guards import GUARD_SINCE, pod_guard, webhook_guard
from components.documents.labels import Later
from components.documents.rbac import rbac
from components.documents.settings import logging_map, settings_data, settings_map
from components.documents.webhook import webhook_configurations, webhook_secret

Objects = dict[str, dict[str, Any]]
"""Objects by a key that is unique among them."""
Seal = Callable[[Any, str], Any]
"""A value and the top-level key it is under → what stands for it: the value, or a secret output of it."""


@dataclass(frozen=True, slots=True)
class ControllerObjects:
    """The controller's objects in the order in which pods need them."""

    namespace: dict[str, Any]
    identity: Objects
    """ServiceAccount, roles and bindings."""
    configuration: Objects
    """ConfigMaps, and the webhook's Secret and configurations."""
    workload: Objects
    """Service, PodDisruptionBudget, NetworkPolicy and Deployment."""

    def all(self) -> list[dict[str, Any]]:
        """Every one of them, in order."""
        return [self.namespace, *self.identity.values(), *self.configuration.values(), *self.workload.values()]


@dataclass(frozen=True, slots=True)
class Place:
    """Where the controller runs."""

    account: Account
    kubernetes: tuple[int, int]
    """Major and minor version of the cluster."""


@dataclass(frozen=True, slots=True)
class KeyedObject:
    """An object, and the configuration key that has the stack make it."""

    path: str
    document: Mapping[str, Any]


def _as_it_is(value: Any, _key: str) -> Any:
    return value


def controller_objects(
    config: StackConfig, place: Place, image: Later, role_arn: Later, seal: Seal = _as_it_is
) -> ControllerObjects:
    """The controller's objects. `image` and `role_arn` are as they are to be written."""
    namespace, settings, account = config.controller.namespace, config.settings, place.account
    names = (config.cluster.name, config.instance_profile_name, config.queue_name)
    data = settings_data(settings, *names, account.arn("eks", f"cluster/{config.cluster.name}"))
    # A digest of few values tells them.
    checksum = seal(controller.checksum(data), "settings")
    env = seal(config.controller.env, "controller")
    spec = controller.ControllerSpec(config.controller, image, account.region, env, checksum)
    access = rbac(namespace, surge=settings.surge_single_replicas, owners=settings.plan_ahead_owners)
    guard = pod_guard(namespace) if place.kubernetes >= GUARD_SINCE else {}
    return ControllerObjects(
        namespace=controller.namespace(namespace),
        identity={"service-account": controller.service_account(namespace, role_arn), **access, **guard},
        configuration={
            "settings": settings_map(namespace, seal(data, "settings")),
            "logging": logging_map(namespace, config.controller.log_level),
            **(_webhook(namespace, place) if config.controller.webhook else {}),
        },
        workload={
            "service": controller.service(namespace),
            "disruption-budget": controller.disruption_budget(namespace),
            "network-policy": controller.network_policy(namespace),
            "deployment": controller.deployment(spec),
        },
    )


def _webhook(namespace: str, place: Place) -> Objects:
    guard = webhook_guard(namespace) if place.kubernetes >= GUARD_SINCE else {}
    return {"webhook-secret": webhook_secret(namespace), **webhook_configurations(namespace), **guard}


def fargate_logging_objects(config: StackConfig, account: Account) -> Objects:
    """What switches the log router of Fargate pods on; empty where the stack does not."""
    if not (config.fargate.enabled and config.fargate.logging):
        return {}
    return fargate.logging_objects(account.region, config.cluster.name)


def addon_objects(config: StackConfig) -> Mapping[str, Objects]:
    """Objects beside the charts and EKS add-ons, by add-on."""
    chosen = config.addons
    storage = chosen.ebs_csi.default_storage_class if chosen.ebs_csi else ""
    placeholders = chosen.overprovisioning if chosen.keda else None
    return {
        "ebs-csi": {"storage-class": addons.default_storage_class(storage)} if storage else {},
        "keda": addons.overprovisioning_objects(placeholders, "default") if placeholders else {},
    }


def keyed_objects(config: StackConfig, place: Place, own: Iterable[Mapping[str, Any]]) -> Iterator[KeyedObject]:
    """Every object of the stack without values that only a deployment knows. `own`: Provisioners and node templates.

    CRDs are not among them: those that exist are taken over in any case.
    """
    objects = controller_objects(config, place, "", "")
    yield KeyedObject("controller.namespace", objects.namespace)
    for each in objects.all()[1:]:
        yield KeyedObject("controller.namespace" if "namespace" in each["metadata"] else "controller", each)
    for each in fargate_logging_objects(config, place.account).values():
        yield KeyedObject("fargate.logging", each)
    keys = {"ebs-csi": "addons.ebsCsi", "keda": "addons.overprovisioning"}
    for addon, beside in addon_objects(config).items():
        for each in beside.values():
            yield KeyedObject(keys[addon], each)
    for document in own:
        yield KeyedObject("nodeTemplates" if document["kind"] == "AWSNodeTemplate" else "provisioners", document)
