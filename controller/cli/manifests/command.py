"""Flags and output of `nodeless manifests`."""

from __future__ import annotations

import json
from pathlib import Path

import click
import yaml

from controller.cli import output
from controller.cli.output import Command


@click.command(cls=Command)
@click.option("-f", "--file", required=True, metavar="FILE", help="Stack file: stacks/Pulumi.NAME.yaml.")
@click.option("--account", default="", metavar="ID", help="AWS account of the cluster.")
@click.option("--region", default="", metavar="NAME", help="Region of the cluster. [default: the file's aws:region]")
@click.option(
    "--kubernetes-version",
    "version",
    default="",
    metavar="VERSION",
    help="Of the cluster. [default: the file's cluster.create.version]",
)
@click.option("--image", default="", metavar="NAME", help="Image of the controller, where the file has it built.")
@click.option("--iam", is_flag=True, help="Print the IAM roles with their policies instead, as JSON.")
@click.option("--vpc", default="", metavar="ID", help="VPC of the cluster (for the policies).")
@click.option("--oidc-issuer", "issuer", default="", metavar="URL", help="OIDC issuer of the cluster (for the roles).")
@click.option("--into", "folder", default="", metavar="FOLDER", help="Write both to files in FOLDER instead.")
def manifests(
    file: str, account: str, region: str, version: str, image: str, iam: bool, vpc: str, issuer: str, folder: str
) -> None:
    """The Kubernetes objects that a stack file stands for, as YAML: for GitOps, or kubectl apply.

    They are the very objects of `pulumi up`, and so are the IAM policies. Neither AWS nor a cluster is asked: flags say
    what the stack would look up. Charts, EKS add-ons and other AWS resources are not in it.
    """
    from controller.cli.manifests.stack import Facts, read_stack

    facts = Facts(account, region, version, image, vpc, issuer)
    stack = read_stack(file, facts, with_roles=iam or bool(folder))
    if folder:
        _write(Path(folder), {name: _yaml(objects) for name, objects in stack.files().items()})
        _write(Path(folder) / "iam", {name: _json(document) for name, document in stack.role_files().items()})
    elif iam:
        click.echo(_json(stack.roles()), nl=False)
    else:
        click.echo(_yaml([each for objects in stack.files().values() for each in objects]), nl=False)
    if left_out := stack.left_out():
        output.note(f"Not in it, for Helm or EKS to install: {', '.join(left_out)}")


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        click.echo(str(path))


def _json(document: object) -> str:
    return json.dumps(document, indent=2) + "\n"


class _Dumper(yaml.SafeDumper):
    """Writes what objects share in each of them, without anchors."""

    def ignore_aliases(self, _data: object) -> bool:
        return True


def _yaml(objects: list[dict[str, object]]) -> str:
    return yaml.dump_all(objects, Dumper=_Dumper, explicit_start=True, sort_keys=False, width=120)
