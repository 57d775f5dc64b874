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
ACTIONS = sorted((ROOT / ".github" / "actions").glob("*/action.yml"))
OWN = "./.github/actions/"
"""What is in the checkout already has no commit of its own."""
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")


def jobs(path: Path) -> dict[str, dict[str, Any]]:
    """The jobs of a workflow."""
    document: dict[str, Any] = yaml.safe_load(path.read_text())
    return dict(document["jobs"])


def uses(path: Path) -> list[str]:
    """Actions of others that a workflow or an action runs, as they are written."""
    return [each.strip() for each in re.findall(r"uses:\s*(.+)", path.read_text()) if not each.startswith(OWN)]


@pytest.mark.parametrize("path", [*WORKFLOWS, *ACTIONS], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_actions_are_named_by_commit_with_their_version_beside(path: Path) -> None:
    assert uses(path)
    assert [each for each in uses(path) if not PINNED.fullmatch(each)] == []


def test_the_guides_workflow_for_other_repositories_is_one_that_our_action_takes() -> None:
    text = (ROOT / "docs" / "guides" / "pull-requests.md").read_text()
    (block,) = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    job = yaml.safe_load(block)["jobs"]["preview"]
    *others, ours = job["steps"]
    assert ours["uses"] == "OWNER/REPOSITORY/.github/actions/preview@COMMIT"
    inputs = yaml.safe_load(ACTIONS[0].read_text())["inputs"]
    needed = {name for name, each in inputs.items() if each.get("required")}
    assert needed <= set(ours["with"]) <= set(inputs)
    assert set(re.findall(r"^\| `([a-z-]+)` \|", text, re.MULTILINE)) == set(inputs)
    ran = jobs(ROOT / ".github" / "workflows" / "preview.yml")["preview"]
    assert [each["uses"] for each in others] == [each["uses"] for each in ran["steps"][:-1]]
    assert (job["environment"], job["permissions"]) == (ran["environment"], ran["permissions"])


def test_one_action_has_one_commit_everywhere() -> None:
    used = {use.split()[0] for path in (*WORKFLOWS, *ACTIONS) for use in uses(path)}
    assert len({use.split("@")[0] for use in used}) == len(used)


@pytest.mark.parametrize("path", [*WORKFLOWS, *ACTIONS], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_no_value_is_written_into_a_script(path: Path) -> None:
    """The name of a branch, or a stack's, would be run as the shell reads it."""
    document = yaml.safe_load(path.read_text())
    steps = [step for job in document.get("jobs", {}).values() for step in job["steps"]]
    steps += document.get("runs", {}).get("steps", [])
    assert [step["run"] for step in steps if "${{" in step.get("run", "")] == []


def test_a_job_that_gets_a_cloud_token_or_a_secret_waits_for_its_environment() -> None:
    trusted = {
        name
        for path in WORKFLOWS
        for name, job in jobs(path).items()
        if job.get("permissions", {}).get("id-token") == "write" or "secrets." in json.dumps(job)
    }
    assert trusted == {"preview", "image"}
    preview = jobs(ROOT / ".github" / "workflows" / "preview.yml")
    assert preview["preview"]["environment"] == "preview"
    assert preview["preview"]["needs"] == "cost", "two writers of one comment come one after the other"
    assert preview["cost"]["steps"][-1]["with"]["resources"] == "false"
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
