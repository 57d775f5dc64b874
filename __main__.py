"""The Pulumi program: read the stack's configuration, look at what is there, declare the platform, export outputs."""

import sys
from pathlib import Path

import pulumi

from components.config.checks import warnings
from components.config.load import load
from components.config.objects import image_warnings
from components.credentials import credential_warnings
from components.lookup import kubernetes_version, look_up
from components.platform import Platform
from components.secrets import secret_warnings
from controller.errors import ValidationError

FOLDER = Path(__file__).parent
REFUSED = 32
"""Exit code by which Pulumi's language host knows that the user was told why: it adds no "unhandled error"."""


def main() -> None:
    """Declare the stack, or say every problem of its configuration and end."""
    stack_tag = f"{pulumi.get_project()}/{pulumi.get_stack()}"
    try:
        stack = load(FOLDER)
        for warning in [*warnings(stack.config), *secret_warnings(stack.secret_keys), *credential_warnings()]:
            pulumi.log.warn(warning)
        there = look_up(stack.config, stack_tag)
        for warning in image_warnings(stack.objects, kubernetes_version(stack.config, there)):
            pulumi.log.warn(warning)
        outputs = Platform(stack, there, FOLDER, stack_tag).declare()
    except ValidationError as error:
        for problem in error.problems:
            pulumi.log.error(str(problem))
        sys.exit(REFUSED)
    for name, value in outputs.items():
        pulumi.export(name, value)


main()
