"""From a launch request to launch templates: images, security groups, instance profile, user data and tags."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence

from cachetools import LRUCache

from controller.aws.amifamily import family_of
from controller.aws.amifamily.family import Bootstrap
from controller.aws.amifamily.images import Images
from controller.aws.amifamily.user_data import check_size
from controller.aws.api import tags as tagging
from controller.aws.api.cluster_facts import ClusterFacts
from controller.aws.catalog.capacity import DEFAULT_MAX_PODS
from controller.aws.launch.launch_templates import LaunchParameters, LaunchTemplates
from controller.aws.network.security_groups import SecurityGroups
from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.api.provisioner import KubeletConfiguration
from controller.core.cloud import InstanceType, LaunchRequest
from controller.errors import NodeTemplateError
from controller.settings import Settings

KUBELET_LABEL_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
KUBELET_LABELS = frozenset({keys.ARCH, keys.OS, keys.HOSTNAME, keys.INSTANCE_TYPE, keys.ZONE, keys.REGION})
"""Labels of Kubernetes' domains that a kubelet may set on its Node (NodeRestriction); with others it does not start."""

REMEMBERED_TEMPLATES = 1000


class NodeParameters:
    """Resolves what a node is launched with. Safe for many threads."""

    def __init__(
        self, settings: Settings, images: Images, security_groups: SecurityGroups, launch_templates: LaunchTemplates
    ) -> None:
        self._settings = settings
        self._images = images
        self._security_groups = security_groups
        self._launch_templates = launch_templates
        self._lock = threading.Lock()
        self._by_name: LRUCache[str, LaunchParameters] = LRUCache(REMEMBERED_TEMPLATES)

    def launch_templates(
        self, request: LaunchRequest, capacity_type: str, types: Sequence[InstanceType], cluster: ClusterFacts
    ) -> dict[str, str]:
        """Return the launch template's name by instance type; types without an image are left out.

        Raises NodeTemplateError when the template cannot be resolved, and other CloudErrors.
        """
        template = request.template
        if template.launch_template:
            return {item.name: template.launch_template for item in types}
        images = self._images.by_type(template, cluster.kubernetes_version, types)
        kinds = {item.name: (images[item.name], self._max_pods(request, item)) for item in types if item.name in images}
        names = {
            kind: self._ensure(self._parameters(request, capacity_type, *kind, cluster))
            for kind in sorted(set(kinds.values()), key=lambda kind: (kind[0], kind[1] or 0))
        }
        return {name: names[kind] for name, kind in kinds.items()}

    def restore(self, names: Iterable[str]) -> bool:
        """Create launch templates again that EC2 does not have any more; False when none is the controller's."""
        with self._lock:
            ours = {name: self._by_name[name] for name in sorted(set(names)) if name in self._by_name}
        for name, parameters in ours.items():
            self._launch_templates.forget(name)
            self._launch_templates.ensure(parameters)
        return bool(ours)

    def launch_tags(self, request: LaunchRequest) -> dict[str, str]:
        """Return the tags of the instance, its volumes and the fleet, but for the launch token."""
        derived = {keys.PROVISIONER_NAME, keys.ZONE, keys.CAPACITY_TYPE, keys.INSTANCE_TYPE}
        return tagging.launch_tags(
            cluster_name=self._settings.cluster_name,
            provisioner_name=request.provisioner.name,
            settings_tags=self._settings.tags,
            template_tags=request.template.tags,
            labels={key: value for key, value in request.labels.items() if key not in derived},
            pod_density=tagging.pod_density_of(
                request.provisioner.kubelet, family_of(request.template).supports_pods_per_core
            ),
            subject=f"AWSNodeTemplate {request.template.name}",
        )

    def _ensure(self, parameters: LaunchParameters) -> str:
        name = self._launch_templates.ensure(parameters)
        with self._lock:
            self._by_name[name] = parameters
        return name

    def _max_pods(self, request: LaunchRequest, item: InstanceType) -> int | None:
        """Return the kubelet's --max-pods; None where the images' own rule (the ENI formula) holds."""
        kubelet, settings = request.provisioner.kubelet, self._settings
        pods = max_pods(kubelet, settings.enable_eni_limited_pod_density)
        own_rule = not settings.enable_prefix_delegation and not settings.reserved_enis
        return pods if pods is not None or own_rule else item.capacity.get("pods")

    def _parameters(
        self, request: LaunchRequest, capacity_type: str, image_id: str, max_pods: int | None, cluster: ClusterFacts
    ) -> LaunchParameters:
        template, provisioner = request.template, request.provisioner
        family = family_of(template, cluster.kubernetes_version)
        subject = f"AWSNodeTemplate {template.name}"
        bootstrap = Bootstrap(
            subject=subject,
            cluster=cluster,
            kubelet=provisioner.kubelet,
            labels=FrozenMap(kubelet_labels(provisioner.labels, provisioner.name, capacity_type)),
            taints=(*request.taints, *request.startup_taints),
            max_pods=max_pods,
            custom=template.user_data,
            instance_store=bool(self._settings.instance_store_policy) and family.supports_instance_store,
        )
        tags = {
            **self._settings.tags,
            **template.tags,
            "Name": f"{keys.PROVISIONER_NAME}/{provisioner.name}",
            **tagging.ownership(self._settings.cluster_name, provisioner.name),
        }
        return LaunchParameters(
            template=template,
            family=family,
            image_id=image_id,
            instance_profile=self._instance_profile(request),
            security_groups=self._security_groups.matching(template),
            user_data=check_size(family.user_data(bootstrap), subject),
            tags=tags,
            ipv6=cluster.ipv6,
        )

    def _instance_profile(self, request: LaunchRequest) -> str:
        profile = request.template.instance_profile or self._settings.default_instance_profile
        if not profile:
            raise NodeTemplateError(
                f"AWSNodeTemplate {request.template.name}: no instance profile; set spec.instanceProfile, or "
                "aws.defaultInstanceProfile in karpenter-global-settings"
            )
        return profile


def max_pods(kubelet: KubeletConfiguration, eni_limited: bool) -> int | None:
    """Return the kubelet's --max-pods; None: the image's own rule, which is the ENI formula."""
    if kubelet.max_pods is not None:
        return kubelet.max_pods
    return None if eni_limited else DEFAULT_MAX_PODS


def kubelet_labels(labels: Mapping[str, str], provisioner_name: str, capacity_type: str) -> dict[str, str]:
    """Return the labels that a kubelet registers with, sorted:
    the Provisioner's that it may set, its name, capacity type."""
    own = {key: value for key, value in labels.items() if kubelet_may_set(key)}
    own[keys.PROVISIONER_NAME] = provisioner_name
    own[keys.CAPACITY_TYPE] = capacity_type
    return dict(sorted(own.items()))


def kubelet_may_set(key: str) -> bool:
    """Return whether the kubelet starts when `--node-labels` has the key."""
    domain = key.partition("/")[0] if "/" in key else ""
    if key in KUBELET_LABELS or any(domain == one or domain.endswith("." + one) for one in KUBELET_LABEL_DOMAINS):
        return True
    return not any(domain == one or domain.endswith("." + one) for one in ("kubernetes.io", "k8s.io"))
