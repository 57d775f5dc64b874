"""The API of Karpenter v0.27: `karpenter.sh/v1alpha5 Provisioner` and `karpenter.k8s.aws/v1alpha1 AWSNodeTemplate`."""

from typing import Final

from controller.core.api.front_end import ApiKind, FrontEnd
from controller.core.api.v1alpha5.conditions import conditions_after
from controller.core.api.v1alpha5.disruption_rules import ANNOTATION_KEYS
from controller.core.api.v1alpha5.nodetemplate_rules import read_node_template
from controller.core.api.v1alpha5.provisioner_defaults import default_patch
from controller.core.api.v1alpha5.provisioner_rules import read_provisioner, template_name

V1ALPHA5: Final = FrontEnd(
    pool=ApiKind("karpenter.sh", "v1alpha5", "provisioners", "Provisioner", read_provisioner, default_patch),
    node_template=ApiKind("karpenter.k8s.aws", "v1alpha1", "awsnodetemplates", "AWSNodeTemplate", read_node_template),
    template_name=template_name,
    conditions=conditions_after,
    keys=ANNOTATION_KEYS,
)
