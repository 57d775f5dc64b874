"""The Pulumi program of a stack file; started as a plugin (PulumiPlugin.yaml), the host of the components."""

import sys

import pulumi
from pulumi.provider.experimental import component_provider_host
from pulumi.runtime.settings import SETTINGS

from components.nodeless import COMPONENTS, NAME, ExportedNodeLess, stack_arguments
from controller.errors import ValidationError

REFUSED = 32
"""Exit code by which Pulumi's language host knows that the user was told why: it adds no "unhandled error"."""


def main() -> None:
    """Declare the stack, or say every problem of its configuration and end."""
    try:
        outputs = ExportedNodeLess("nodeless", stack_arguments()).outputs
    except ValidationError as error:
        for problem in error.problems:
            pulumi.log.error(str(problem))
        sys.exit(REFUSED)
    for name, value in outputs.items():
        pulumi.export(name, value)


# The language host has connected a program to the engine's monitor by now; a plugin is told of one with each call.
if SETTINGS.monitor is not None:
    main()
elif __name__ == "__main__":
    component_provider_host(components=COMPONENTS, name=NAME)
