"""A stack file, read as the program of the stack reads it, with flags in place of what that looks up."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

import yaml

from components.config.load import Stack, parse, values
from components.documents.account import Account
from components.documents.addons import CHARTS
from components.documents.manifests import Place, addon_objects, controller_objects, fargate_logging_objects
from components.documents.roles import RoleDocument, controller_role_arn, roles
from controller.cli.inputs.files import LocatedObject, read_files
from controller.cli.inputs.stack_file import project_folder, stack_region
from controller.core.api.document import mapping, text
from controller.core.api.strict import Report
from controller.errors import ValidationError

REGION = r"[a-z]{2,4}(-[a-z]+)+-[0-9]+"
PARTITIONS = {"us-gov-": "aws-us-gov", "cn-": "aws-cn"}
"""Partition by the beginning of the region's name; others are in `aws`."""
SECRET = "secure"  # noqa: S105 - the member under which Pulumi writes what it encrypted
MANAGED = {"vpc_cni": "vpc-cni", "kube_proxy": "kube-proxy", "core_dns": "coredns", "ebs_csi": "aws-ebs-csi-driver"}
"""EKS add-ons by key."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What flags say; empty: not given."""

    account: str
    region: str
    kubernetes_version: str
    image: str
    vpc: str
    oidc_issuer: str


@dataclass(frozen=True, slots=True)
class PlacedStack:
    stack: Stack
    place: Place
    image: str
    vpc_id: str
    issuer: str

    def files(self) -> dict[str, list[dict[str, Any]]]:
        """Return the objects by file, in the order to apply them in."""
        config, account = self.stack.config, self.place.account
        role_arn = controller_role_arn(config, account)
        by_file = {
            "1-definitions.yaml": definitions() if config.controller.manage_crds else [],
            "2-controller.yaml": controller_objects(config, self.place, self.image, role_arn).all(),
            "3-fargate-logging.yaml": list(fargate_logging_objects(config, account).values()),
            "4-provisioning.yaml": [dict(each) for each in self.stack.objects],
            "5-addons.yaml": [each for objects in addon_objects(config).values() for each in objects.values()],
        }
        return {name: objects for name, objects in by_file.items() if objects}

    def roles(self) -> list[dict[str, Any]]:
        return [self._role(each) for each in self._roles()]

    def role_files(self) -> dict[str, Any]:
        """Return the documents by file: a folder a role, with its trust policy, its policies and the managed ones."""
        by_file: dict[str, Any] = {}
        for each in self._roles():
            by_file[f"{each.name}/trust-policy.json"] = each.trust_policy(self.place.account, self.issuer)
            if each.managed_policy_arns:
                by_file[f"{each.name}/managed-policies.json"] = list(each.managed_policy_arns)
            for name, policy in {**each.policies, **each.inline_policies}.items():
                by_file[f"{each.name}/policies/{name}.json"] = policy
        return by_file

    def left_out(self) -> list[str]:
        """Return the charts and EKS add-ons of the stack."""
        addons = self.stack.config.addons
        charts = [name for name in CHARTS if getattr(addons, name.replace("-", "_"))]
        return [*(name for key, name in MANAGED.items() if getattr(addons, key)), *charts]

    def _roles(self) -> tuple[RoleDocument, ...]:
        return roles(self.stack.config, self.place.account, self.vpc_id)

    def _role(self, role: RoleDocument) -> dict[str, Any]:
        boundary = self.stack.config.identity.permissions_boundary_arn
        return {
            "name": role.name,
            "path": role.path,
            **({"permissionsBoundary": boundary} if boundary else {}),
            "trustPolicy": role.trust_policy(self.place.account, self.issuer),
            "managedPolicyArns": list(role.managed_policy_arns),
            "policies": dict(role.policies),
            "inlinePolicies": dict(role.inline_policies),
        }


def read_stack(file: str, facts: Facts, *, with_roles: bool) -> PlacedStack:
    """Return the stack of a file. Raises ValidationError with every problem of the file and the flags.

    `with_roles`: IAM roles are asked for, which takes the VPC and the issuer.
    """
    report = Report()
    located = _stack_file(file, report)
    if located is None:
        raise ValidationError("Stack file", report.problems)
    region = facts.region or stack_region(located)
    keys = {str(name): value for name, value in mapping(located.document.get("config")).items()}
    document = {name: _decrypted(value, name, report) for name, value in values(keys).items()}
    version = facts.kubernetes_version or _text(document, "cluster", "create", "version")
    image = facts.image or _text(document, "controller", "image")
    _check(facts, region, version, image, report, with_roles=with_roles)
    stack = parse(document, project_folder(located), report)
    partition = next((name for start, name in PARTITIONS.items() if region.startswith(start)), "aws")
    major, minor = version.split(".")
    place = Place(Account(partition, facts.account, region), (int(major), int(minor)))
    return PlacedStack(stack, place, image, facts.vpc, facts.oidc_issuer)


def definitions() -> list[dict[str, Any]]:
    """Return the CRDs: beside the package in a checkout, in it once installed."""
    package = resources.files("controller")
    folder = next(each for each in (package / "crds", package / ".." / "crds") if each.is_dir())
    files = sorted((each for each in folder.iterdir() if each.name.endswith(".yaml")), key=lambda each: each.name)
    return [yaml.safe_load(each.read_text()) for each in files]


def _stack_file(file: str, report: Report) -> LocatedObject | None:
    objects = read_files([file], report)
    stacks = [each for each in objects if each.kind == "StackConfig"]
    if not report.problems and len(stacks) != 1:
        report.add(file, f"holds {len(stacks)} stack configurations", "give one stack file, with `config:` on top")
    return None if report.problems else stacks[0]


def _text(document: Mapping[str, Any], *path: str) -> str:
    value: Any = document
    for step in path:
        value = mapping(value).get(step)
    return text(value)


def _check(facts: Facts, region: str, version: str, image: str, report: Report, *, with_roles: bool) -> None:
    wanted = [
        ("--account", r"[0-9]{12}", facts.account, "account", "12 digits"),
        ("--region", REGION, region, "region", "write one such as us-east-1, here or as aws:region in the file"),
        ("--kubernetes-version", r"[0-9]+\.[0-9]+", version, "version", "write major.minor, such as 1.35"),
        ("--image", r"\S+", image, "image", "name the one that you built for the stack, or set controller.image"),
    ]
    if with_roles:
        begins = "the cluster's identity.oidc.issuer, beginning with https://"
        wanted += [
            ("--vpc", r"vpc-[0-9a-f]+", facts.vpc, "VPC", "write the id of the cluster's, which the policies name"),
            ("--oidc-issuer", r"https://[^\s/]+(/\S+)?", facts.oidc_issuer, "issuer", begins),
        ]
    for flag, form, value, noun, remedy in wanted:
        if not re.fullmatch(form, value):
            report.add(flag, f"{value!r} is no {noun}" if value else "is missing", remedy)


def _decrypted(value: Any, path: str, report: Report) -> Any:
    """Return the value, with a stand-in for what is encrypted, which is a problem, so that the rest is judged too."""
    if isinstance(value, Mapping):
        if set(value) == {SECRET}:
            report.add(path, "is encrypted, and only Pulumi has the key", "give a copy of the file without it")
            return "encrypted" if "." in path else None
        return {name: _decrypted(member, f"{path}.{name}", report) for name, member in value.items()}
    if isinstance(value, list):
        return [_decrypted(member, f"{path}[{index}]", report) for index, member in enumerate(value)]
    return value
