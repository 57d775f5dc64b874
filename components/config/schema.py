"""All keys of a stack, and the values that derive from them."""

from __future__ import annotations

from components.config.addons import AddonsConfig
from components.config.cluster import ClusterConfig, DiscoveryConfig, FargateConfig, IdentityConfig
from components.config.controller import ControllerConfig, InterruptionConfig, ObjectConfig
from components.config.keys import key, section
from components.config.settings import SettingsConfig


@section
class StackConfig:
    """One environment."""

    cluster: ClusterConfig = key("The EKS cluster.")
    adopt: bool = key(
        "Take over what exists already under the stack's names: import it, and make it what the stack says. For one "
        "`up`, after a guide, eksctl, Helm, CloudFormation or a lost state; take it out afterwards.",
        default=False,
    )
    discovery: DiscoveryConfig = key("Which subnets and which security group nodes get.", default=DiscoveryConfig())
    identity: IdentityConfig = key("IAM roles of the nodes and of the controller.", default=IdentityConfig())
    fargate: FargateConfig = key("Where system pods run without nodes.", default=FargateConfig())
    controller: ControllerConfig = key("The controller's Deployment.")
    settings: SettingsConfig = key("The controller's settings.", default=SettingsConfig())
    interruption: InterruptionConfig = key("The interruption queue.", default=InterruptionConfig())
    provisioners: tuple[ObjectConfig, ...] = key("Provisioners (karpenter.sh/v1alpha5).", default=())
    node_templates: tuple[ObjectConfig, ...] = key("AWSNodeTemplates (karpenter.k8s.aws/v1alpha1).", default=())
    manifests: tuple[str, ...] = key(
        "YAML files with more Provisioners and AWSNodeTemplates, by path from the project's folder.", default=()
    )
    addons: AddonsConfig = key("What runs besides the controller.", default=AddonsConfig())

    @property
    def node_role_name(self) -> str:
        """Role of the nodes."""
        return self.identity.node_role_name or f"KarpenterNodeRole-{self.cluster.name}"

    @property
    def instance_profile_name(self) -> str:
        """Instance profile of the nodes."""
        return self.identity.instance_profile_name or f"KarpenterNodeInstanceProfile-{self.cluster.name}"

    @property
    def controller_role_name(self) -> str:
        """Role of the controller."""
        return self.identity.controller_role_name or f"KarpenterControllerRole-{self.cluster.name}"

    @property
    def pod_execution_role_name(self) -> str:
        """Role of Fargate pods before they run."""
        return self.fargate.pod_execution_role_name or f"NodelessFargatePodExecutionRole-{self.cluster.name}"

    @property
    def queue_name(self) -> str:
        """The interruption queue; empty when there is none."""
        return (self.interruption.queue_name or self.cluster.name) if self.interruption.enabled else ""
