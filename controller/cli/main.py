"""The `nodeless` command."""

from __future__ import annotations

import importlib
import os
import sys

import click
from click.shell_completion import get_completion_class

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
        "Why a pod is pending, a node stays or goes, or a Provisioner launches nothing.",
    ),
    "view": (
        "controller.cli.view.command",
        "The nodes of a cluster, live: use, price, limits, pending pods and why, decisions.",
    ),
    "dump": ("controller.cli.dump.command", "An anonymised snapshot for a bug report, which simulate can load."),
    "convert": ("controller.cli.convert.command", "Provisioners to v1 NodePools and back, with what is lost."),
    "check": ("controller.cli.check.command", "What is wrong with the installation, and how to fix it."),
}
"""Commands imported on demand: name → (module with a command of that name, help text)."""


class Commands(click.Group):
    """Command group that imports the modules of LOADED on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """This module's commands, then those of LOADED."""
        return [*super().list_commands(ctx), *LOADED]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported if needed."""
        if cmd_name not in LOADED:
            return super().get_command(ctx, cmd_name)
        command: click.Command = getattr(importlib.import_module(LOADED[cmd_name][0]), cmd_name)
        return command

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        own = [(name, each.get_short_help_str(90)) for name, each in sorted(self.commands.items())]
        with formatter.section("Commands"):
            formatter.write_dl([*own, *((name, text) for name, (_, text) in LOADED.items())])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """NodeLess: an EKS cluster without node groups."""


@main.command()
def version() -> None:
    """Print the version."""
    click.echo(f"nodeless {controller.__version__}")


@main.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")), metavar="bash|zsh|fish")
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script for shell completion of commands and options.

    bash: source <(nodeless completion bash), in ~/.bashrc; zsh alike in ~/.zshrc; fish: nodeless completion fish >
    ~/.config/fish/completions/nodeless.fish
    """
    script_class = get_completion_class(shell)
    assert script_class is not None
    click.echo(script_class(ctx.find_root().command, {}, "nodeless", "_NODELESS_COMPLETE").source())


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
    help="Log level where the ConfigMap config-logging sets none.",
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
    process waits until it exists. Changes apply while it runs, or by a restart where needed. Log levels come from the
    ConfigMap config-logging there (or CONFIG_LOGGING_NAME). An API server older than KUBERNETES_MIN_VERSION is refused.
    AWS credentials and region come from the environment or the pod's identity, as for every AWS SDK.
    """
    # Slow to import, and not needed for help and the other commands.
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
    os._exit(code)  # a thread that hangs in a call to AWS must not keep the process beyond its grace period


if __name__ == "__main__":
    main()
