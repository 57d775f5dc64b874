"""The whole stack as one component: by the program of this repository, or by any other."""

from pathlib import Path
from typing import Any

import pulumi

from components.addons import ChartAddon, ManagedAddon
from components.cluster import NewCluster
from components.config.checks import warnings
from components.config.inputs import NodeLessArgs
from components.config.load import load
from components.config.objects import image_warnings
from components.config.secrets import secret_warnings
from components.controller import Controller, CustomResourceDefinitions
from components.credentials import credential_warnings
from components.discovery import DiscoveryTags
from components.fargate import FargateLogging, FargateProfiles
from components.image import ControllerImage
from components.interruption import InterruptionQueue
from components.lookup import kubernetes_version, look_up
from components.nodes import NodeAccess, NodeIdentity
from components.platform import Platform
from components.provisioning import Provisioning
from components.role import Role
from components.sweep import Sweep

FOLDER = Path(__file__).parents[1]
"""With crds/, dashboards/, scripts/ and the Dockerfile. Paths of manifests count from it."""


class NodeLess(pulumi.ComponentResource):
    """An EKS cluster, existing or new, whose EC2 nodes all come from one small controller. One in a program.

    Arguments are judged, and what is there is looked up, before anything is declared: controller.errors.ValidationError
    has every problem with its key path.
    """

    cluster_name: pulumi.Output[str]
    """Name of the cluster, once it is there."""
    node_role_arn: pulumi.Output[str]
    """IAM role of the nodes."""
    instance_profile_name: pulumi.Output[str]
    """Instance profile of the nodes."""
    controller_role_arn: pulumi.Output[str]
    """IAM role of the controller."""
    interruption_queue_name: pulumi.Output[str]
    """SQS queue of interruptions; empty: there is none."""
    kubeconfig: pulumi.Output[str]
    """Kubeconfig with tokens by `aws eks get-token`; secret."""

    def __init__(self, name: str, args: NodeLessArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        stack_tag = f"{pulumi.get_project()}/{pulumi.get_stack()}"
        stack = load(args, FOLDER)
        for warning in [*warnings(stack.config), *secret_warnings(stack.secret_keys), *credential_warnings()]:
            pulumi.log.warn(warning)
        there = look_up(stack.config, stack_tag)
        for warning in image_warnings(stack.objects, kubernetes_version(stack.config, there)):
            pulumi.log.warn(warning)
        super().__init__("nodeless:index:NodeLess", name, {}, opts)
        self.outputs: dict[str, Any] = Platform(stack, there, FOLDER, stack_tag, self).declare()
        self.cluster_name = pulumi.Output.from_input(self.outputs["clusterName"])
        self.node_role_arn = pulumi.Output.from_input(self.outputs["nodeRoleArn"])
        self.instance_profile_name = pulumi.Output.from_input(self.outputs["instanceProfileName"])
        self.controller_role_arn = pulumi.Output.from_input(self.outputs["controllerRoleArn"])
        self.interruption_queue_name = pulumi.Output.from_input(self.outputs["interruptionQueueName"])
        self.kubeconfig = self.outputs["kubeconfig"]
        self.register_outputs(self.outputs)


NAME = "nodeless"
COMPONENTS: list[type[pulumi.ComponentResource]] = [
    ChartAddon,
    Controller,
    ControllerImage,
    CustomResourceDefinitions,
    DiscoveryTags,
    FargateLogging,
    FargateProfiles,
    InterruptionQueue,
    ManagedAddon,
    NewCluster,
    NodeAccess,
    NodeIdentity,
    NodeLess,
    Provisioning,
    Role,
    Sweep,
]
"""The package of components, for programs in any of Pulumi's languages (`pulumi package add`)."""
