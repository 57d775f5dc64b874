"""Keys on the controller, its objects and its interruption queue."""

from __future__ import annotations

from components.config.cluster import ARN, ARN_FORM
from components.config.keys import Document, key, section
from controller.core.api.frozen import EMPTY, FrozenMap


@section
class BuildConfig:
    """An image built from the Dockerfile and pushed to an ECR repository of the stack."""

    repository: str = key(
        "Name of the ECR repository; empty: nodeless/CLUSTER in lower case.",
        default="",
        pattern=r"[a-z0-9]+(?:[._/-][a-z0-9]+)*",
        form="lower-case letters, digits, and . _ - / between them",
    )
    platforms: tuple[str, ...] = key(
        "Platforms; Fargate runs linux/amd64.", default=("linux/amd64",), allowed=("linux/amd64", "linux/arm64")
    )


@section
class ControllerConfig:
    """The controller's Deployment."""

    image: str = key("Image reference, best by digest; empty: see build.", default="")
    build: BuildConfig | None = key("Build the image instead.", default=None)
    replicas: int = key("One leads, the others stand by.", default=2, minimum=1, maximum=5)
    cpu: str = key(
        "CPU request and limit.", default="1", pattern=r"\d+m|\d+(\.\d+)?", form="a quantity such as 1 or 500m"
    )
    memory: str = key("Memory request and limit.", default="1Gi", pattern=r"\d+(Mi|Gi)", form="a quantity such as 1Gi")
    namespace: str = key(
        "Namespace of the controller.", default="karpenter", pattern=r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?",
        form="a DNS label",
    )  # fmt: skip
    placement: str = key(
        "`fargate` (by the profile `karpenter`), `nodeGroup` (on the managed node group nodeGroup alone), or `any` "
        "(on every node that is not our own).",
        default="fargate",
        allowed=("fargate", "nodeGroup", "any"),
    )
    node_group: str = key("Managed node group that placement `nodeGroup` binds the pods to.", default="")
    log_level: str = key(
        "What is logged; a change takes hold in seconds and rolls no pod.",
        default="info",
        allowed=("debug", "info", "warning", "error"),
    )
    webhook: bool = key(
        "Serve the admission webhooks; off: wrong objects are accepted, and say so in a condition.", default=True
    )
    env: FrozenMap[str, str] = key("More environment variables.", default=EMPTY)
    manage_crds: bool = key("Install the two CRDs; off: something else installs and upgrades them.", default=True)


@section
class InterruptionConfig:
    """The queue of spot interruptions, scheduled changes and state changes."""

    enabled: bool = key("Make the queue and its rules, and have the controller read it.", default=True)
    queue_name: str = key(
        "Name of the queue; empty: the cluster's.", default="", pattern=r"[0-9A-Za-z_-]{1,80}",
        form="letters, digits, - and _, at most 80",
    )  # fmt: skip
    kms_key_arn: str = key(
        "KMS key of the queue, whose policy must let events.amazonaws.com use it; empty: SQS's own encryption.",
        default="",
        pattern=ARN,
        form=ARN_FORM,
    )


@section
class ObjectConfig:
    """A Provisioner or an AWSNodeTemplate."""

    name: str = key("Its name.")
    labels: FrozenMap[str, str] = key("Labels of the object itself.", default=EMPTY)
    annotations: FrozenMap[str, str] = key("Annotations of the object itself.", default=EMPTY)
    spec: Document = key("Its spec, as in a manifest.")
