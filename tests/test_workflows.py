"""The workflows: what they run is what was reviewed, and who gets credentials was let in by a person."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")


def jobs(path: Path) -> dict[str, dict[str, Any]]:
    """The jobs of a workflow."""
    document: dict[str, Any] = yaml.safe_load(path.read_text())
    return dict(document["jobs"])


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_named_by_commit_with_their_version_beside(path: Path) -> None:
    used = re.findall(r"uses:\s*(.+)", path.read_text())
    assert used
    assert [each for each in used if not PINNED.fullmatch(each.strip())] == []


def test_one_action_has_one_commit_everywhere() -> None:
    used = {use for path in WORKFLOWS for use in re.findall(r"uses:\s*(\S+)", path.read_text())}
    assert len({use.split("@")[0] for use in used}) == len(used)


def test_a_job_that_gets_a_cloud_token_or_a_secret_waits_for_its_environment() -> None:
    trusted = {
        name
        for path in WORKFLOWS
        for name, job in jobs(path).items()
        if job.get("permissions", {}).get("id-token") == "write" or "secrets." in json.dumps(job)
    }
    assert trusted == {"preview", "image"}
    assert jobs(ROOT / ".github" / "workflows" / "preview.yml")["preview"]["environment"] == "preview"
    assert jobs(ROOT / ".github" / "workflows" / "image.yml")["image"]["environment"] == "release"


def test_the_image_of_a_release_has_its_contents_its_origin_and_a_signature() -> None:
    text = (ROOT / ".github" / "workflows" / "image.yml").read_text()
    assert yaml.safe_load(text)[True] == {"push": {"tags": ["v*"]}}, "a tag alone starts it"
    for part in ("--sbom=true", "--provenance=mode=max", 'cosign sign --yes "${IMAGE,,}@$(jq'):
        assert part in text


def test_renovate_pins_and_bumps_images_and_actions() -> None:
    config = json.loads((ROOT / ".github" / "renovate.json").read_text())
    assert {"docker:pinDigests", "helpers:pinGitHubActionDigestsToSemver"} <= set(config["extends"])
    assert set(config["enabledManagers"]) == {"dockerfile", "github-actions"}
