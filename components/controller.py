"""The controller in the cluster: its CRDs and its objects."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import pulumi

from components.objects import declare


class CustomResourceDefinitionsArgs(TypedDict):
    """The API that the controller serves."""

    definitions: Sequence[Mapping[str, Any]]
    """Documents of kind CustomResourceDefinition."""


class CustomResourceDefinitions(pulumi.ComponentResource):
    """The CRDs, kept on destroy: deleting one deletes all its objects, and with them their nodes."""

    def __init__(
        self, name: str, args: CustomResourceDefinitionsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("nodeless:index:CustomResourceDefinitions", name, {}, opts)
        for definition in args["definitions"]:
            kept = pulumi.ResourceOptions(parent=self, retain_on_delete=True)
            declare(f"{name}-{definition['spec']['names']['plural']}", definition, kept)
        self.register_outputs({})


def _unawaited(service: Mapping[str, Any]) -> dict[str, Any]:
    """A Service whose endpoints nobody waits for: the Deployment that they are of comes beside it, and is awaited."""
    metadata = service["metadata"]
    annotations = {**metadata.get("annotations", {}), "pulumi.com/skipAwait": "true"}
    return {**service, "metadata": {**metadata, "annotations": annotations}}


class ControllerArgs(TypedDict):
    """The controller's objects, as documents; values inside may be outputs of other resources."""

    namespace: Mapping[str, Any]
    """Its Namespace."""
    identity: Mapping[str, Mapping[str, Any]]
    """ServiceAccount, roles and bindings, by name."""
    configuration: Mapping[str, Mapping[str, Any]]
    """ConfigMaps, and the webhook's Secret and configurations, by name."""
    workload: Mapping[str, Mapping[str, Any]]
    """Service, PodDisruptionBudget, NetworkPolicy and Deployment, by name."""


class Controller(pulumi.ComponentResource):
    """The controller's objects in the order in which pods need them: namespace, identity, configuration, workload."""

    def __init__(self, name: str, args: ControllerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("nodeless:index:Controller", name, {}, opts)
        namespace = declare(f"{name}-namespace", args["namespace"], pulumi.ResourceOptions(parent=self))
        inside = pulumi.ResourceOptions(parent=self, depends_on=[namespace])
        needed = [
            declare(f"{name}-{key}", document, inside)
            for key, document in {**args["identity"], **args["configuration"]}.items()
        ]
        after = pulumi.ResourceOptions(parent=self, depends_on=[namespace, *needed])
        for key, document in args["workload"].items():
            declare(f"{name}-{key}", _unawaited(document) if document["kind"] == "Service" else document, after)
        self.register_outputs({})
