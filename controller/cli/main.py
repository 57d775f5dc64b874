"""The `nodeless` command."""

from __future__ import annotations

import importlib
import os
import sys

import click

import controller
from controller.errors import NodelessError, ValidationError
from controller.telemetry.log_levels import LEVELS

MISUSE = 2

LOADED = {
    "simulate": (
        "controller.cli.simulate.command",
        "Which nodes a workload would get, what they cost, and what cannot be placed.",
    ),
    "explain": (
        "controller.cli.explain.command",
        "Why a pod waits, a node is what it is, or a Provisioner launches nothing.",
    ),
    "view": (
        "controller.cli.view.command",
        "The nodes of a cluster, live: use, price, pods that wait and why, decisions.",
    ),
    "dump": ("controller.cli.dump.command", "An anonymised snapshot for a bug report, that simulate can load."),
    "completion": ("controller.cli.completion", "The script that makes a shell complete commands and options."),
    "convert": ("controller.cli.convert.command", "Provisioners to v1 NodePools and back, with what is lost said."),
    "check": ("controller.cli.check.command", "What is wrong with the installation, and how to mend it."),
}
"""Commands that are imported when they are called: module (the command bears the name), help in the list."""


class Commands(click.Group):
    """The group; it knows commands by name before their modules are imported."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Those of this module, then those that are loaded."""
        return [*super().list_commands(ctx), *LOADED]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now if need be."""
        if cmd_name not in LOADED:
            return super().get_command(ctx, cmd_name)
        command: click.Command = getattr(importlib.import_module(LOADED[cmd_name][0]), cmd_name)
        return command

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing them."""
        own = [(name, each.get_short_help_str(90)) for name, each in sorted(self.commands.items())]
        with formatter.section("Commands"):
            formatter.write_dl([*own, *((name, text) for name, (_, text) in LOADED.items())])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """NodeLess: EC2 nodes for pods that wait, and none for pods that are gone."""


@main.command()
def version() -> None:
    """Print the version."""
    click.echo(f"nodeless {controller.__version__}")


@main.command()
@click.option(
    "--kubeconfig", default="", metavar="PATH", help="Kubeconfig file. [default: KUBECONFIG, else in-cluster]"
)
@click.option("--kube-client-qps", metavar="N", help="Requests a second to the API server. [env: KUBE_CLIENT_QPS, 200]")
@click.option("--kube-client-burst", metavar="N", help="Requests at once. [env: KUBE_CLIENT_BURST, 300]")
@click.option(
    "--leader-elect",
    metavar="BOOL",
    help="Act only while holding the Lease karpenter-leader-election. [env: LEADER_ELECT, true]",
)
@click.option("--metrics-port", metavar="PORT", help="/metrics; 0: a free one. [env: METRICS_PORT, 8080]")
@click.option(
    "--health-probe-port", metavar="PORT", help="/healthz and /readyz; 0: a free one. [env: HEALTH_PROBE_PORT, 8081]"
)
@click.option(
    "--enable-profiling",
    metavar="BOOL",
    help="/debug/stacks on the metrics port: where every thread is. [env: ENABLE_PROFILING, false]",
)
@click.option(
    "--karpenter-service", metavar="NAME", help="The webhook's Service; empty: no webhook. [env: KARPENTER_SERVICE]"
)
@click.option("--disable-webhook", metavar="BOOL", help="Serve no admission webhook. [env: DISABLE_WEBHOOK, false]")
@click.option("--webhook-port", metavar="PORT", help="Admission over HTTPS. [env: WEBHOOK_PORT, 8443]")
@click.option("--memory-limit", metavar="BYTES", help="Of the container; -1: unknown. [env: MEMORY_LIMIT, -1]")
@click.option(
    "--log-level",
    default="info",
    show_default=True,
    type=click.Choice(list(LEVELS)),
    help="What is logged where the ConfigMap config-logging does not say.",
)
@click.option(
    "--log-format",
    default="auto",
    show_default=True,
    type=click.Choice(["auto", "json", "console"]),
    help="JSON lines, or text for a terminal.",
)
def run(kubeconfig: str, log_level: str, log_format: str, **flags: str | None) -> None:
    """Run the controller until SIGTERM.

    Settings come from the ConfigMap karpenter-global-settings in the namespace SYSTEM_NAMESPACE, which must be set; the
    process waits until it exists. Changes are taken up while it runs, or by a restart where that is needed. Log levels
    come from the ConfigMap config-logging there (or CONFIG_LOGGING_NAME). An API server older than
    KUBERNETES_MIN_VERSION is refused. Credentials and region of AWS come from the environment or the pod's identity, as
    for every AWS SDK.
    """
    # Slow to import: help, version and the commands for people do without.
    import structlog

    from controller.operator.options import Options, without_effect
    from controller.operator.process import run as run_operator
    from controller.telemetry.structured_logging import configure

    configure(log_level, "json" if log_format == "json" else "console" if log_format == "console" else "auto")
    given = {name.replace("_", "-"): value for name, value in flags.items() if value is not None}
    for variable, because in without_effect(os.environ).items():
        structlog.get_logger("operator").warning("Variable has no effect", variable=variable, because=because)
    try:
        code = run_operator(Options.parse(os.environ, given), kubeconfig=kubeconfig, level=log_level)
    except ValidationError as error:
        click.echo(f"{error.subject}:", err=True)
        for problem in error.problems:
            click.echo(f"  {problem}", err=True)
        sys.exit(MISUSE)
    except NodelessError as error:
        click.echo(f"nodeless cannot start: {error}", err=True)
        sys.exit(1)
    sys.stdout.flush()
    os._exit(code)  # a thread that hangs in a call to AWS must not keep the process past its grace period


if __name__ == "__main__":
    main()
