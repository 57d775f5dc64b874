"""The provider's credentials: handed to the sweep and to the kubeconfig's token, which refuse another account."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from components.documents.credentials import AssumedRole, Credentials, sweep_command
from components.documents.kubeconfig import kubeconfig
from scripts import sweep
from tests.components.engine import ACCOUNT_ID, DECLARES, Run, declared_once, run_stack, warned
from tests.components.stacks import minimal

pytestmark = DECLARES

OTHER = "999988887777"
ROLES = [
    {"roleArn": "arn:aws:iam::222233334444:role/hub"},
    {"roleArn": "arn:aws:iam::111122223333:role/deploy", "externalId": "it's"},
]
AWS = """#!/bin/sh
# The AWS CLI, as far as the kubeconfig asks it; a key says what it was assumed with.
echo "$* key=${AWS_ACCESS_KEY_ID:-} profile=${AWS_PROFILE:-} sts=${AWS_ENDPOINT_URL_STS:-}" >> "$CALLS"
case "$1 $2" in
"sts assume-role") printf 'ASIA%s\\tsecret\\ttoken\\n' "$(wc -l < "$CALLS" | tr -d ' ')";;
"sts get-caller-identity") echo "$ACCOUNT";;
"eks get-token") echo '{"kind": "ExecCredential"}';;
esac
"""


def declared(**keys: Any) -> Run:
    """The least stack, with keys `aws:…` as Pulumi hands them over."""
    config = {f"nodeless:{name}": json.dumps(value) for name, value in minimal().items()}
    return declared_once({**config, **{f"aws:{name}": value for name, value in keys.items()}})


def token(text: str, folder: Path, account: str = ACCOUNT_ID, **environment: str) -> tuple[Any, list[str]]:
    """What a kubeconfig's command does, and its calls of the AWS CLI."""
    (folder / "aws").write_text(AWS)
    (folder / "aws").chmod(0o755)
    calls = folder / "calls"
    calls.write_text("")
    command = json.loads(text)["users"][0]["user"]["exec"]
    variables = {"PATH": f"{folder}:{os.environ['PATH']}", "CALLS": str(calls), "ACCOUNT": account, **environment}
    done = subprocess.run([command["command"], *command["args"]], env=variables, capture_output=True, text=True)
    return done, calls.read_text().splitlines()


def test_the_kubeconfig_asks_the_aws_cli_for_a_token(tmp_path: Path) -> None:
    text = kubeconfig("myeks", Credentials(ACCOUNT_ID, "ap-northeast-2"), "https://a.example", "Y2E=")
    config = json.loads(text)
    assert config["clusters"][0]["cluster"] == {"server": "https://a.example", "certificate-authority-data": "Y2E="}
    assert config["current-context"] == config["contexts"][0]["name"]
    done, calls = token(text, tmp_path)
    assert json.loads(done.stdout) == {"kind": "ExecCredential"}
    assert calls[-1].startswith("eks get-token --cluster-name myeks --region ap-northeast-2 --output json")


def test_the_token_of_another_account_is_refused(tmp_path: Path) -> None:
    text = declared().outputs["kubeconfig"]
    done, calls = token(text, tmp_path, OTHER)
    assert done.returncode == 1
    assert f"cluster myeks is in account {ACCOUNT_ID}, and the AWS credentials are of account {OTHER}" in done.stderr
    assert not any("get-token" in call for call in calls)


def test_the_token_is_asked_for_with_the_profile_and_the_roles_of_the_provider(tmp_path: Path) -> None:
    run = declared(profile="prod admin", assumeRoles=json.dumps(ROLES))
    text = run.outputs["kubeconfig"]
    assert run.one("kubernetes").inputs["kubeconfig"] == text, "the provider looks at the same cluster"
    done, calls = token(text, tmp_path, AWS_PROFILE="ambient")
    assert done.returncode == 0, done.stderr
    first, second, identity, last = calls
    assert "--role-arn arn:aws:iam::222233334444:role/hub --role-session-name nodeless" in first
    assert "--profile prod admin" in first
    assert "--role-arn arn:aws:iam::111122223333:role/deploy" in second
    assert "--external-id it's" in second
    assert [call.split(" key=")[1] for call in (second, identity, last)] == [
        "ASIA1 profile= sts=", "ASIA2 profile= sts=", "ASIA2 profile= sts=",
    ]  # fmt: skip


def test_endpoints_of_the_provider_reach_the_token_and_the_sweep(tmp_path: Path) -> None:
    urls = {"ec2": "http://ec2.test:1", "sts": "http://sts.test:2", "iam": "http://iam.test"}
    run = declared(endpoints=json.dumps([urls]))
    assert (
        run.one("sweep-leftovers")
        .inputs["delete"]
        .startswith(
            "env AWS_ENDPOINT_URL_EC2=http://ec2.test:1 AWS_ENDPOINT_URL_STS=http://sts.test:2 uv run --locked python"
        )
    )
    done, calls = token(run.outputs["kubeconfig"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert all("sts=http://sts.test:2" in call for call in calls)


def test_a_role_that_cannot_be_assumed_gives_no_token(tmp_path: Path) -> None:
    text = declared(assumeRoles=json.dumps(ROLES)).outputs["kubeconfig"]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "aws").write_text("#!/bin/sh\nexit 254\n")
    (tmp_path / "bin" / "aws").chmod(0o755)
    done, calls = token(text, tmp_path, PATH=f"{tmp_path}/bin:{os.environ['PATH']}")
    assert (done.returncode, done.stdout, calls) == (254, "", [])


def test_the_sweep_gets_the_account_the_profile_and_the_roles_of_the_provider() -> None:
    run = declared(profile="prod admin", assumeRoles=json.dumps(ROLES))
    words = shlex.split(run.one("sweep-leftovers").inputs["delete"])
    assert words[:5] == ["uv", "run", "--locked", "python", "scripts/sweep.py"]
    options = dict(zip(words[5::2], words[6::2], strict=True))
    assert (options["--account"], options["--profile"]) == (ACCOUNT_ID, "prod admin")
    given = [sweep.Role().convert(word, None, None) for word in words if "roleArn" in word]
    assert [role["RoleArn"] for role in given] == [each["roleArn"] for each in ROLES]
    assert given[1]["ExternalId"] == "it's"


def test_the_sweeps_command_line_is_one_that_the_script_takes() -> None:
    credentials = Credentials(ACCOUNT_ID, "ap-northeast-2", "no such", (AssumedRole(ROLES[0]["roleArn"]),))
    words = shlex.split(sweep_command("myeks", credentials))[5:]
    said = CliRunner().invoke(sweep.main, words)
    assert said.exit_code == 1
    assert "no such" in said.output, "it is the profile that is missing, and no option"


def test_roles_that_are_none_are_refused_and_what_cannot_be_handed_on_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for text, problem in (
        ('[{"role": "x"}]', "aws:assumeRoles[0].roleArn: is missing"),
        ("x", "aws:assumeRoles: is no list"),
        ('{"a": 1}', "aws:assumeRoles: is no list"),
    ):
        caplog.clear()
        with pytest.raises(SystemExit):
            declared(assumeRoles=text)
        assert next(each.message for each in caplog.records if each.levelname == "ERROR").startswith(problem)
    caplog.clear()
    wrong = {"aws:assumeRoles": "x", "aws:assumeRole": "{}", "aws:endpoints": "[1]"}
    with pytest.raises(SystemExit):
        run_stack("test", {"nodeless:cluster": '{"name": 1}', **wrong})
    said = [each.message.partition(": ")[0] for each in caplog.records if each.levelname == "ERROR"]
    ours = ["aws:assumeRoles", "aws:endpoints[0]", "aws:assumeRole"]
    assert said == [*ours, "cluster.name", "controller"], "with all that is wrong elsewhere"
    caplog.clear()
    declared(sharedConfigFiles='["/etc/aws"]')
    (warning,) = warned(caplog)
    assert warning.startswith("aws:sharedConfigFiles is not handed to scripts/sweep.py and the kubeconfig")
