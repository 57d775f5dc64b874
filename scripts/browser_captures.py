"""Make docs/captures/simulate-page.png: the page of `nodeless simulate --compare --html`, on two widths of screen.

    uv run python scripts/browser_captures.py

Chromium draws it, of any name that distributions give it; BROWSER_BINARY names another.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import click

ROOT = Path(__file__).parent.parent
CAPTURE = ROOT / "docs" / "captures" / "simulate-page.png"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WIDE, NARROW, GAP, HEIGHT = 1200, 360, 20, 1700
"""CSS pixels; NARROW is a small phone's."""
SECONDS = 120.0


def find_browser(environment: Mapping[str, str]) -> str:
    """The browser's path. Raises ClickException that says what to install."""
    named = environment.get("BROWSER_BINARY")
    names = (named,) if named else BROWSERS
    found = (shutil.which(name, path=environment.get("PATH", "")) for name in names)
    path = next(filter(None, found), None)
    if path is None:
        raise click.ClickException(
            f"no {' or '.join(names)} on PATH: install Chromium (Debian: apt-get install chromium), or name one by "
            "BROWSER_BINARY"
        )
    return path


def side_by_side(page: str) -> str:
    """A document that shows a page at both widths."""
    frames = (f'<iframe src="{page}" width="{width}" height="{HEIGHT}"></iframe>' for width in (WIDE, NARROW))
    style = f"body{{margin:0;display:flex;gap:{GAP}px;background:#999}}iframe{{border:0}}"
    return f"<!doctype html><meta charset=utf-8><style>{style}</style>{''.join(frames)}"


@click.command(help=__doc__)
def main() -> None:
    """Simulate, then draw."""
    browser = find_browser(os.environ)
    stacks = ("stacks/Pulumi.prod.yaml", "stacks/workloads", "--compare", "stacks/Pulumi.dev.yaml")
    with tempfile.TemporaryDirectory() as folder:
        page, both = Path(folder) / "page.html", Path(folder) / "both.html"
        simulate = [sys.executable, "-m", "controller.cli.main", "simulate", *stacks, "--html", str(page)]
        subprocess.run(simulate, cwd=ROOT, check=True, capture_output=True, timeout=SECONDS)
        both.write_text(side_by_side(page.name))
        options = (
            "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--allow-file-access-from-files",
            f"--user-data-dir={folder}/profile", f"--window-size={WIDE + GAP + NARROW},{HEIGHT}",
            f"--screenshot={CAPTURE}",
        )  # fmt: skip
        subprocess.run([browser, *options, both.as_uri()], check=True, capture_output=True, timeout=SECONDS)
    click.echo(str(CAPTURE.relative_to(ROOT)))


if __name__ == "__main__":
    main()
