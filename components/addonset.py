"""Which add-ons a stack has, with what each of them needs: values, a role, objects."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
import yaml

from components.addons import ChartAddon, ManagedAddon, ManagedAddonArgs
from components.config.schema import StackConfig
from components.documents import addons
from components.documents.account import Account
from components.documents.manifests import addon_objects
from components.documents.policy import compact
from components.documents.roles import RoleDocument, addon_roles
from components.objects import sealed
from components.role import Role, RoleArgs

Trust = Callable[[RoleDocument], pulumi.Output[str]]
"""The role of a ServiceAccount → its trust policy, as JSON."""


def declare_addons(
    config: StackConfig,
    account: Account,
    folder: Path,
    *,
    secret: bool,
    cluster_name: pulumi.Input[str],
    vpc_id: pulumi.Input[str],
    trust: Trust,
    opts: pulumi.ResourceOptions,
    own: pulumi.ResourceOptions,
) -> None:
    """Declare those that the stack has switched on.

    `secret`: users' values hold a secret. `opts` of what is in the cluster, `own` of roles.
    """
    declared = _Addons(config, account, cluster_name, trust, opts, own, secret)
    declared.managed()
    declared.load_balancer_controller(vpc_id)
    declared.external_dns()
    declared.monitoring(folder / "dashboards")
    declared.keda()


@dataclass(slots=True)
class _Addons:
    config: StackConfig
    account: Account
    cluster_name: pulumi.Input[str]
    trust: Trust
    opts: pulumi.ResourceOptions
    own: pulumi.ResourceOptions
    secret: bool

    def managed(self) -> None:
        chosen, on_fargate = self.config.addons, self.config.fargate.enabled
        if chosen.vpc_cni:
            role = self._role("vpc-cni")
            self._managed("vpc-cni", chosen.vpc_cni.version, {}, chosen.vpc_cni.values, role)
        if chosen.kube_proxy:
            self._managed("kube-proxy", chosen.kube_proxy.version, {}, chosen.kube_proxy.values)
        if chosen.core_dns:
            values = addons.core_dns_values(on_fargate=on_fargate)
            self._managed("coredns", chosen.core_dns.version, values, chosen.core_dns.values)
        if chosen.ebs_csi:
            role = self._role("ebs-csi")
            objects = addon_objects(self.config)["ebs-csi"]
            values = addons.ebs_csi_values(self.account.region)
            self._managed("aws-ebs-csi-driver", chosen.ebs_csi.version, values, chosen.ebs_csi.values, role, objects)

    def load_balancer_controller(self, vpc_id: pulumi.Input[str]) -> None:
        chosen = self.config.addons.load_balancer_controller
        if not chosen:
            return
        name = self.config.cluster.name
        role = self._role("load-balancer-controller")
        values = addons.load_balancer_values(
            name, self.account.region, vpc_id, role.arn, on_fargate=self.config.fargate.enabled
        )
        self._chart("load-balancer-controller", chosen.version, values, chosen.values, role)

    def external_dns(self) -> None:
        chosen = self.config.addons.external_dns
        if not chosen:
            return
        role = self._role("external-dns")
        values = addons.external_dns_values(chosen, self.config.cluster.name, self.account.region, role.arn)
        self._chart("external-dns", chosen.version, values, chosen.values, role)

    def monitoring(self, dashboards: Path) -> None:
        chosen = self.config.addons
        if chosen.prometheus:
            alerts = yaml.safe_load(addons.linked((dashboards / "alerts.yaml").read_text(), chosen.runbooks))
            values = addons.prometheus_values(self.config.controller.namespace, alerts)
            self._chart("prometheus", chosen.prometheus.version, values, chosen.prometheus.values)
        if chosen.grafana:
            shown = {
                path.stem: addons.linked(path.read_text(), chosen.runbooks)
                for path in sorted(dashboards.glob("*.json"))
            }
            self._chart("grafana", chosen.grafana.version, addons.grafana_values(shown), chosen.grafana.values)

    def keda(self) -> None:
        chosen = self.config.addons
        if not chosen.keda:
            return
        objects = addon_objects(self.config)["keda"]
        self._chart("keda", chosen.keda.version, {}, chosen.keda.values, objects=objects)

    def _managed(
        self,
        addon: str,
        version: str,
        ours: Mapping[str, Any],
        theirs: Mapping[str, Any],
        role: Role | None = None,
        objects: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        values = addons.merged(ours, theirs)
        args: ManagedAddonArgs = {
            "cluster_name": self.cluster_name,
            "addon_name": addon,
            "version": version,
            "objects": objects or {},
        }
        if values:
            args["values"] = sealed(json.dumps(values, sort_keys=True), secret=self.secret)
        if role:
            args["service_account_role_arn"] = role.arn
        ManagedAddon(addon, args, opts=self._after(role))

    def _after(self, role: Role | None) -> pulumi.ResourceOptions:
        """Its pods act as the role, which has all its policies by then."""
        return pulumi.ResourceOptions.merge(self.opts, pulumi.ResourceOptions(depends_on=[role] if role else []))

    def _chart(
        self,
        name: str,
        version: str,
        ours: Mapping[str, Any],
        theirs: Mapping[str, Any],
        role: Role | None = None,
        objects: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        chart = addons.CHARTS[name]
        ChartAddon(
            name,
            {
                "chart": chart.name,
                "repository": chart.repository,
                "version": version or chart.version,
                "namespace": chart.namespace,
                "values": addons.merged(ours, sealed(theirs, secret=self.secret)),
                "objects": objects or {},
            },
            opts=self._after(role),
        )

    def _role(self, addon: str) -> Role:
        role = addon_roles(self.config, self.account)[addon]
        args: RoleArgs = {
            "role_name": role.name,
            "arn": role.arn,
            "trust_policy": self.trust(role),
            "path": role.path,
            "permissions_boundary_arn": self.config.identity.permissions_boundary_arn,
            "managed_policy_arns": role.managed_policy_arns,
            "policies": {name: compact(policy) for name, policy in role.policies.items()},
        }
        return Role(f"{addon}-identity", args, opts=self.own)
