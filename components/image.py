"""The controller's image, built from the Dockerfile and kept in a repository of the stack."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

import pulumi
import pulumi_aws as aws
import pulumi_docker_build as docker_build

KEPT_IMAGES = 20
SOURCES = (
    "Dockerfile", ".dockerignore", "pyproject.toml", "uv.lock", "README.md", "controller", "crds",
    "components/__init__.py", "components/config", "components/documents",
)  # fmt: skip
"""What .dockerignore lets into the build; the image follows from it alone."""


def content_tag(folder: Path, platforms: Sequence[str]) -> str:
    """A tag derived from the image's sources, so that one tag never means two images."""
    digest = hashlib.sha256("\0".join(platforms).encode())
    for source in SOURCES:
        root = folder / source
        files = [root] if root.is_file() else root.rglob("*")
        for path in sorted(each for each in files if each.is_file() and "__pycache__" not in each.parts):
            digest.update(f"\0{path.relative_to(folder).as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:20]


class ControllerImageArgs(TypedDict):
    """What is built, and where it is kept."""

    repository_name: str
    """Name of the ECR repository."""
    platforms: Sequence[str]
    """Such as linux/amd64."""
    context: str
    """Folder of the Dockerfile."""
    tag: str
    """Tag that follows from the content."""


class ControllerImage(pulumi.ComponentResource):
    """The image, referred to by digest: what runs is what was built, even if someone moves a tag."""

    reference: pulumi.Output[str]
    """REPOSITORY:TAG@sha256:DIGEST."""

    def __init__(self, name: str, args: ControllerImageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("nodeless:index:ControllerImage", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self)
        repository = aws.ecr.Repository(
            f"{name}-repository",
            name=args["repository_name"],
            image_tag_mutability="IMMUTABLE",
            image_scanning_configuration=aws.ecr.RepositoryImageScanningConfigurationArgs(scan_on_push=True),
            encryption_configurations=[aws.ecr.RepositoryEncryptionConfigurationArgs(encryption_type="AES256")],
            force_delete=True,
            opts=child,
        )
        expire = {
            "rulePriority": 1,
            "selection": {"tagStatus": "any", "countType": "imageCountMoreThan", "countNumber": KEPT_IMAGES},
            "action": {"type": "expire"},
        }
        aws.ecr.LifecyclePolicy(
            f"{name}-lifecycle", repository=repository.name, policy=json.dumps({"rules": [expire]}), opts=child
        )
        token = aws.ecr.get_authorization_token_output(
            registry_id=repository.registry_id, opts=pulumi.InvokeOptions(parent=self)
        )
        image = docker_build.Image(
            f"{name}-image",
            push=True,
            context=docker_build.BuildContextArgs(location=args["context"]),
            platforms=[docker_build.Platform(each) for each in args["platforms"]],
            tags=[repository.repository_url.apply(lambda url: f"{url}:{args['tag']}")],
            registries=[
                docker_build.RegistryArgs(
                    address=repository.repository_url,
                    username=token.user_name,
                    password=pulumi.Output.secret(token.password),
                )
            ],
            build_on_preview=False,
            opts=child,
        )
        self.reference = image.ref
        self.register_outputs({"reference": self.reference})
