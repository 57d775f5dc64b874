"""The whole stack: its components, and how they depend on each other."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as kubernetes
import yaml

from components.addonset import declare_addons
from components.cluster import NewCluster
from components.config.load import Stack
from components.config.schema import StackConfig
from components.controller import Controller, CustomResourceDefinitions
from components.discovery import DiscoveryTags, DiscoveryTagsArgs
from components.documents import fargate
from components.documents.credentials import sweep_command
from components.documents.kubeconfig import kubeconfig
from components.documents.manifests import Place, controller_objects, fargate_logging_objects
from components.documents.named import control_plane_role_name, repository_name
from components.documents.policy import compact
from components.documents.roles import LOGGING_POLICY, RoleDocument, controller_role, fargate_role, node_role
from components.fargate import FargateLogging, FargateProfiles
from components.image import ControllerImage, content_tag
from components.interruption import InterruptionQueue
from components.lookups.adoption import STACK_TAG, tagging_and_importing
from components.lookups.surroundings import Surroundings, admits_by_access_entry, kubernetes_version, version_pair
from components.nodes import NodeAccess, NodeIdentity
from components.objects import sealed
from components.provisioning import Provisioning, ProvisioningArgs
from components.role import Role
from components.sweep import Sweep


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster, new or existing, as the other parts see it."""

    name: pulumi.Input[str]
    endpoint: pulumi.Input[str]
    certificate_authority_data: pulumi.Input[str]
    issuer: pulumi.Input[str]
    vpc_id: pulumi.Input[str]
    security_group_id: pulumi.Input[str]
    access_entries: bool
    resources: tuple[pulumi.Resource, ...] = ()
    """What must be there before it can be used."""


@dataclass(slots=True)
class Platform:
    """Declare the components. Each method is one of them; `declare` has the order."""

    stack: Stack
    there: Surroundings
    folder: Path
    stack_tag: str
    component: pulumi.ComponentResource
    """The parent of all."""

    @property
    def config(self) -> StackConfig:
        """The stack's keys."""
        return self.stack.config

    def _sealed(self, value: Any, key: str) -> Any:
        """What is free text under a top-level key, secret where the key is."""
        return sealed(value, secret=key in self.stack.secret_keys)

    def _own(self, opts: pulumi.ResourceOptions | None = None) -> pulumi.ResourceOptions:
        """Under the component, tagged, and imported if it is there already.

        Earlier stacks had the same resources at their root: the alias keeps them.
        """
        own = pulumi.ResourceOptions(
            parent=self.component,
            aliases=[pulumi.Alias(parent=pulumi.ROOT_STACK_RESOURCE)],
            transformations=[tagging_and_importing(self.stack_tag, self.there.imported)],
        )
        return pulumi.ResourceOptions.merge(own, opts)

    @property
    def _location(self) -> str:
        """The project's folder, from where the program runs."""
        return os.path.relpath(self.folder)

    def declare(self) -> dict[str, Any]:
        """Everything. Returns the stack's outputs."""
        cluster = self._cluster()
        provider = self._provider(cluster)
        issuer = self._oidc_provider(cluster)
        nodes = self._node_identity()
        queue = self._queue()
        role = self._controller_role(cluster)
        self._spot_role()
        tags = self._discovery(cluster)
        profiles = self._fargate(cluster, provider)
        inside = pulumi.ResourceOptions(provider=provider, depends_on=profiles)
        access = self._node_access(cluster, nodes, provider)
        definitions = self._definitions(cluster)
        before = _after([*definitions, *issuer, role])
        controller = self._controller(role, pulumi.ResourceOptions.merge(inside, before))
        ready = [controller, access, nodes, tags, *definitions, *([queue] if queue else [])]
        sweep = Sweep(
            "sweep",
            {
                "command": sweep_command(self.config.cluster.name, self.there.credentials),
                "folder": self._location,
            },
            opts=self._own(_after(ready)),
        )
        self._provisioning(pulumi.ResourceOptions(provider=provider, depends_on=[*ready, sweep]))
        self._addons(cluster, provider, [*profiles, *issuer])
        return self._outputs(cluster, nodes, role, queue)

    def _cluster(self) -> Cluster:
        config, account = self.config.cluster, self.there.account
        if self.there.cluster is not None:
            it = self.there.cluster
            facts = (it.endpoint, it.certificate_authority_data, it.issuer, it.vpc_id, it.security_group_id)
            return Cluster(config.name, *facts, it.access_entries)
        assert config.create is not None
        new = NewCluster(
            "cluster",
            {
                "cluster_name": config.name,
                "version": config.create.version,
                "vpc_id": self.there.vpc_id,
                "subnet_ids": config.create.subnet_ids,
                "role_arn": account.role_arn(control_plane_role_name(config.name), self.config.identity.path),
                "cluster_policy_arn": account.managed_policy_arn("AmazonEKSClusterPolicy"),
                "admin_policy_arn": account.access_policy_arn("AmazonEKSClusterAdminPolicy"),
                "admin_principal_arns": config.create.admin_principal_arns,
                "public_access_cidrs": config.create.public_access_cidrs,
                "log_types": config.create.log_types,
                "secrets_key_arn": config.create.secrets_key_arn,
                "tags": {STACK_TAG: self.stack_tag},
                "deletion_protection": config.create.deletion_protection,
                "path": self.config.identity.path,
                "permissions_boundary_arn": self.config.identity.permissions_boundary_arn,
            },
            opts=self._own(),
        )
        facts_of_new = (new.endpoint, new.certificate_authority_data, new.issuer, new.vpc_id, new.security_group_id)
        return Cluster(new.cluster_name, *facts_of_new, True, (new,))

    def _provider(self, cluster: Cluster, name: str = "kubernetes", *, upsert: bool = False) -> kubernetes.Provider:
        """`upsert`: an object that is there already is taken over; else it is an error."""
        config = self.config.cluster
        text = self._sealed(config.kubeconfig, "cluster") if config.kubeconfig else self._kubeconfig(cluster)
        arn = self.there.account.arn("eks", f"cluster/{config.name}")
        # The stack's own objects are as the stack says, whoever else wrote their fields. A ConfigMap is changed in
        # place: replaced, it would be gone for a moment while the controller reads it.
        return kubernetes.Provider(
            name,
            kubeconfig=text,
            cluster_identifier=arn,
            enable_patch_force=True,
            enable_config_map_mutable=True,
            upsert_existing_objects=upsert or self.config.adopt,
            opts=self._own(),
        )

    def _kubeconfig(self, cluster: Cluster) -> pulumi.Output[str]:
        name, credentials = self.config.cluster.name, self.there.credentials
        return pulumi.Output.all(cluster.endpoint, cluster.certificate_authority_data).apply(
            lambda api: kubeconfig(name, credentials, api[0], api[1])
        )

    def _oidc_provider(self, cluster: Cluster) -> list[pulumi.Resource]:
        if self.there.cluster is None or self.there.foreign_oidc_provider:
            return list(cluster.resources)
        provider = aws.iam.OpenIdConnectProvider(
            "oidc-provider",
            url=cluster.issuer,
            client_id_lists=["sts.amazonaws.com"],
            tags={STACK_TAG: self.stack_tag},
            opts=self._own(),
        )
        return [provider]

    def _node_identity(self) -> NodeIdentity:
        account = self.there.account
        role = node_role(self.config, account)
        return NodeIdentity(
            "nodes",
            {
                "role_name": role.name,
                "role_arn": role.arn,
                "instance_profile_name": self.config.instance_profile_name,
                "trust_policy": compact(role.trust_policy(account, "")),
                "policy_arns": role.managed_policy_arns,
                "path": role.path,
                "permissions_boundary_arn": self.config.identity.permissions_boundary_arn,
            },
            opts=self._own(),
        )

    def _queue(self) -> InterruptionQueue | None:
        if not self.config.interruption.enabled:
            return None
        return InterruptionQueue(
            "interruption",
            {
                "cluster_name": self.config.cluster.name,
                "queue_name": self.config.queue_name,
                "kms_key_arn": self.config.interruption.kms_key_arn,
            },
            opts=self._own(),
        )

    def _controller_role(self, cluster: Cluster) -> Role:
        role = controller_role(self.config, self.there.account, self.there.vpc_id)
        return Role(
            "controller-identity",
            {
                "role_name": role.name,
                "arn": role.arn,
                "trust_policy": self._trust(cluster, role),
                "path": role.path,
                "permissions_boundary_arn": self.config.identity.permissions_boundary_arn,
                "policies": {name: compact(policy) for name, policy in role.policies.items()},
            },
            opts=self._own(),
        )

    def _trust(self, cluster: Cluster, role: RoleDocument) -> pulumi.Output[str]:
        """The trust policy of a ServiceAccount's role, which names the cluster's issuer."""
        account = self.there.account
        return pulumi.Output.from_input(cluster.issuer).apply(
            lambda issuer: compact(role.trust_policy(account, issuer))
        )

    def _spot_role(self) -> None:
        if self.config.identity.spot_service_linked_role and not self.there.foreign_spot_role:
            # Kept on destroy: other spot users of the account may rely on it.
            aws.iam.ServiceLinkedRole(
                "spot-role",
                aws_service_name="spot.amazonaws.com",
                tags={STACK_TAG: self.stack_tag},
                opts=self._own(pulumi.ResourceOptions(retain_on_delete=True)),
            )

    def _discovery(self, cluster: Cluster) -> DiscoveryTags:
        wanted = self.config.discovery.security_group
        name, subnets = self.config.cluster.name, self.there.node_subnet_ids
        args: DiscoveryTagsArgs = {"cluster_name": name, "subnet_ids": subnets}
        if wanted != "none":
            args["security_group_id"] = self.there.node_group_id or cluster.security_group_id
        return DiscoveryTags("discovery", args, opts=self._own())

    def _fargate(self, cluster: Cluster, provider: kubernetes.Provider) -> list[pulumi.Resource]:
        config, account, name = self.config.fargate, self.there.account, self.config.cluster.name
        if not config.enabled:
            return []
        execution = fargate_role(self.config, account)
        role = Role(
            "fargate-identity",
            {
                "role_name": execution.name,
                "arn": execution.arn,
                "trust_policy": compact(execution.trust_policy(account, "")),
                "permissions_boundary_arn": self.config.identity.permissions_boundary_arn,
                "managed_policy_arns": execution.managed_policy_arns,
            },
            opts=self._own(),
        )
        in_fargate = self.config.controller.placement == "fargate"
        profiles = FargateProfiles(
            "fargate",
            {
                "cluster_name": cluster.name,
                "pod_execution_role_arn": role.arn,
                "subnet_ids": self.there.pod_subnet_ids,
                "profiles": fargate.profiles(config, self.config.controller.namespace, in_fargate=in_fargate),
            },
            opts=self._own(_after([*cluster.resources, role])),
        )
        if not config.logging:
            return [profiles]
        logging = FargateLogging(
            "fargate-logging",
            {
                "log_group_name": fargate.log_group(name),
                "retention_days": config.log_retention_days,
                "objects": fargate_logging_objects(self.config, account),
                "pod_execution_role_name": role.role_name,
                "policy": compact(execution.inline_policies[LOGGING_POLICY]),
            },
            opts=self._own(pulumi.ResourceOptions(provider=provider, depends_on=[role])),
        )
        return [profiles, logging]

    def _node_access(self, cluster: Cluster, nodes: NodeIdentity, provider: kubernetes.Provider) -> pulumi.Resource:
        if self.config.identity.node_join == "none":
            return nodes
        by_entry = admits_by_access_entry(self.config, self.there.cluster)
        return NodeAccess(
            "node-access",
            {"cluster_name": cluster.name, "role_arn": nodes.role_arn, "by_access_entry": by_entry},
            opts=self._own(pulumi.ResourceOptions(provider=provider, depends_on=[nodes])),
        )

    def _definitions(self, cluster: Cluster) -> list[pulumi.Resource]:
        if not self.config.controller.manage_crds:
            return []
        files = sorted((self.folder / "crds").glob("*.yaml"))
        definitions = [yaml.safe_load(path.read_text()) for path in files]
        # They outlive the stack, so that they may be there already when it comes again.
        provider = self._provider(cluster, "kubernetes-kept", upsert=True)
        return [
            CustomResourceDefinitions(
                "definitions",
                {"definitions": definitions},
                opts=self._own(pulumi.ResourceOptions(provider=provider)),
            )
        ]

    def _image(self) -> pulumi.Input[str]:
        build = self.config.controller.build
        if build is None:
            return self.config.controller.image
        image = ControllerImage(
            "image",
            {
                "repository_name": repository_name(self.config),
                "platforms": build.platforms,
                "context": self._location,
                "tag": content_tag(self.folder, build.platforms),
            },
            opts=self._own(),
        )
        return image.reference

    def _controller(self, role: Role, opts: pulumi.ResourceOptions) -> Controller:
        place = Place(self.there.account, version_pair(kubernetes_version(self.config, self.there)))
        objects = controller_objects(self.config, place, self._image(), role.arn, self._sealed)
        return Controller(
            "controller",
            {
                "namespace": objects.namespace,
                "identity": objects.identity,
                "configuration": objects.configuration,
                "workload": objects.workload,
            },
            opts=self._own(opts),
        )

    def _provisioning(self, opts: pulumi.ResourceOptions) -> None:
        kinds: dict[str, list[dict[str, Any]]] = {"AWSNodeTemplate": [], "Provisioner": []}
        keys = {"AWSNodeTemplate": "nodeTemplates", "Provisioner": "provisioners"}
        for each in self.stack.objects:
            spec = self._sealed(each["spec"], keys[each["kind"]])
            kinds[each["kind"]].append({**each, "spec": spec})
        args: ProvisioningArgs = {
            "templates": kinds["AWSNodeTemplate"],
            "provisioners": kinds["Provisioner"],
            "grace_period": self.config.settings.termination_grace_period or "",
        }
        Provisioning("provisioning", args, opts=self._own(opts))

    def _addons(self, cluster: Cluster, provider: kubernetes.Provider, after: list[pulumi.Resource]) -> None:
        declare_addons(
            self.config,
            self.there.account,
            self.folder,
            secret="addons" in self.stack.secret_keys,
            cluster_name=cluster.name,
            vpc_id=cluster.vpc_id,
            trust=lambda role: self._trust(cluster, role),
            opts=self._own(pulumi.ResourceOptions(provider=provider, depends_on=after)),
            own=self._own(),
        )

    def _outputs(
        self, cluster: Cluster, nodes: NodeIdentity, role: Role, queue: InterruptionQueue | None
    ) -> dict[str, Any]:
        name, region = self.config.cluster.name, self.there.account.region
        return {
            "clusterName": cluster.name,
            "nodeRoleArn": nodes.role_arn,
            "instanceProfileName": nodes.instance_profile_name,
            "controllerRoleArn": role.arn,
            "interruptionQueueName": queue.queue_name if queue else "",
            "kubeconfig": pulumi.Output.secret(self._kubeconfig(cluster)),
            "next": [
                f"aws eks update-kubeconfig --name {name} --region {region}",
                f"kubectl get pods --namespace {self.config.controller.namespace}",
                "kubectl get provisioners,awsnodetemplates,nodes",
            ],
        }


def _after(resources: Sequence[pulumi.Resource]) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions(depends_on=list(resources))
