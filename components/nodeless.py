"""The whole stack as one component: by the program of this repository, or by any other."""

from pathlib import Path
from typing import Any, cast

import pulumi
from pulumi.runtime.config import CONFIG, get_config_env, is_config_secret

from components.addons import ChartAddon, ManagedAddon
from components.cluster import NewCluster
from components.config.checks import warnings
from components.config.inputs import NodeLessArgs
from components.config.load import MARKED, PROJECT, load, values
from components.config.objects import image_warnings
from components.config.secrets import secret_warnings
from components.controller import Controller, CustomResourceDefinitions
from components.credentials import check_provider_keys, credential_warnings
from components.discovery import DiscoveryTags
from components.fargate import FargateLogging, FargateProfiles
from components.image import ControllerImage
from components.interruption import InterruptionQueue
from components.lookups.progress import has_finished
from components.lookups.surroundings import kubernetes_version, look_up
from components.nodes import NodeAccess, NodeIdentity
from components.platform import Platform
from components.provisioning import Provisioning
from components.role import Role
from components.sweep import Sweep
from controller.core.api.strict import Report

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
    _exported = False  # without an annotation, which would make it an output

    def __init__(self, name: str, args: NodeLessArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        stack_tag = f"{pulumi.get_project()}/{pulumi.get_stack()}"
        report = Report()
        check_provider_keys(report)
        stack = load(args, FOLDER, report)
        for warning in [*warnings(stack.config), *secret_warnings(stack.secret_keys), *credential_warnings()]:
            pulumi.log.warn(warning)
        there = look_up(stack, stack_tag, finished=has_finished() if self._exported else None)
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


class ExportedNodeLess(NodeLess):
    """The component in a program that exports its outputs: where the state has none, no `up` has come to its end."""

    _exported = True


def stack_arguments() -> NodeLessArgs:
    """The running stack's configuration as arguments of the component, as it is: the component judges it.

    Pulumi's language host hands the configuration over in the environment, tests and embedders set it. `pulumi.Config`
    lists no keys, and so could not tell unknown ones.
    """
    keys = values({**get_config_env(), **CONFIG.get()})
    secret = sorted(name for name in keys if is_config_secret(f"{PROJECT}:{name}"))
    return cast("NodeLessArgs", {**keys, MARKED: secret})


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
