"""Add-ons: those that EKS manages, and those that a chart installs."""

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as kubernetes

from components.objects import declare


class ManagedAddonArgs(TypedDict):
    """An add-on that EKS manages."""

    cluster_name: pulumi.Input[str]
    """Name of the cluster."""
    addon_name: str
    """Such as coredns."""
    version: NotRequired[str]
    """Such as v1.11.1-eksbuild.4; else EKS's default."""
    values: NotRequired[pulumi.Input[str]]
    """Configuration values, as JSON."""
    service_account_role_arn: NotRequired[pulumi.Input[str]]
    """Role of its ServiceAccount."""
    objects: NotRequired[Mapping[str, Mapping[str, Any]]]
    """Kubernetes objects that go with it, by name."""


class ManagedAddon(pulumi.ComponentResource):
    """What was installed by hand before is taken over; what somebody changes later is left."""

    def __init__(self, name: str, args: ManagedAddonArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("nodeless:index:ManagedAddon", name, {}, opts)
        addon = aws.eks.Addon(
            f"{name}-addon",
            cluster_name=args["cluster_name"],
            addon_name=args["addon_name"],
            addon_version=args.get("version") or None,
            configuration_values=args.get("values"),
            service_account_role_arn=args.get("service_account_role_arn"),
            resolve_conflicts_on_create="OVERWRITE",
            resolve_conflicts_on_update="PRESERVE",
            opts=pulumi.ResourceOptions(parent=self),
        )
        for key, document in args.get("objects", {}).items():
            declare(f"{name}-{key}", document, pulumi.ResourceOptions(parent=self, depends_on=[addon]))
        self.register_outputs({})


class ChartAddonArgs(TypedDict):
    """An add-on that a Helm chart installs."""

    chart: str
    """Name of the chart."""
    repository: str
    """URL of its repository."""
    version: str
    """Version of the chart."""
    namespace: str
    """Namespace of the release; made when missing."""
    values: Mapping[str, Any]
    """Values; there may be outputs inside."""
    objects: NotRequired[Mapping[str, Mapping[str, Any]]]
    """Kubernetes objects that go with it, by name."""


class ChartAddon(pulumi.ComponentResource):
    """A release, and what its definitions make possible."""

    def __init__(self, name: str, args: ChartAddonArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("nodeless:index:ChartAddon", name, {}, opts)
        release = kubernetes.helm.v3.Release(
            f"{name}-release",
            name=name,
            chart=args["chart"],
            version=args["version"],
            namespace=args["namespace"],
            create_namespace=True,
            repository_opts=kubernetes.helm.v3.RepositoryOptsArgs(repo=args["repository"]),
            values=dict(args["values"]),
            opts=pulumi.ResourceOptions(parent=self),
        )
        for key, document in args.get("objects", {}).items():
            declare(f"{name}-{key}", document, pulumi.ResourceOptions(parent=self, depends_on=[release]))
        self.register_outputs({})
