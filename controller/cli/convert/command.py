"""Flags and output of `nodeless convert`."""

from __future__ import annotations

import click
import yaml

from controller.cli import output
from controller.cli.output import Command
from controller.core.api.strict import Report
from controller.errors import Problem, ValidationError

OLD, NEW = ("Provisioner", "AWSNodeTemplate"), ("NodePool", "EC2NodeClass")


@click.command(cls=Command)
@click.argument("files", nargs=-1, required=True, metavar="FILE|FOLDER|-...")
@click.option("--role", default="", metavar="NAME", help="The nodes' IAM role, which v1 requires (to v1 alone).")
@click.option("--strict", is_flag=True, help="Exit with 3 when anything is lost.")
def convert(files: tuple[str, ...], role: str, strict: bool) -> None:
    """Provisioners and AWSNodeTemplates to v1 NodePools and EC2NodeClasses, or back: whichever FILEs hold.

    The objects go to standard output as YAML; what is lost goes to standard error, each with a remedy. Defaults that
    differ between the versions are written out.
    """
    from controller.cli.convert.from_v1 import FromV1
    from controller.cli.convert.to_v1 import ToV1
    from controller.cli.inputs.objects import read_objects
    from controller.cli.inputs.scenario import check_configuration

    report = Report()
    located = read_objects(files, report).located
    kinds = {each.kind for each in located} & {*OLD, *NEW}
    if kinds & {*OLD}:
        check_configuration(located, report)
    if kinds & {*OLD} and kinds & {*NEW}:
        report.add("FILES", f"hold both versions: {', '.join(sorted(kinds))}", "convert one version at a time")
    if report.problems:
        raise ValidationError("Files", report.problems)
    if not kinds:
        problem = Problem("FILES", "hold nothing to convert", f"convertible kinds are {', '.join((*OLD, *NEW))}")
        raise ValidationError("Files", [problem])
    documents = [each.document for each in located if each.kind in kinds]
    converted = ToV1(role).convert(documents) if kinds & {*OLD} else FromV1().convert(documents)
    click.echo(yaml.safe_dump_all(converted.objects, sort_keys=False, width=120), nl=False)
    for loss in converted.losses:
        output.note(f"Lost or changed: {loss}")
    if strict and converted.losses:
        click.get_current_context().exit(output.FOUND)
