"""The clients are of the region that AWS's own commands would take, and read times as botocore does, only faster."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.utils import parse_timestamp

from controller.aws.api.aws_times import timestamp
from controller.aws.api.clients import make_clients
from tests.aws.conftest import Cloud


@pytest.mark.parametrize(
    ("asked", "of_aws", "of_boto3", "taken"),
    [
        ("", "eu-west-1", "", "eu-west-1"),
        ("", "eu-west-1", "us-west-2", "eu-west-1"),
        ("", "", "us-west-2", "us-west-2"),
        ("eu-north-1", "eu-west-1", "us-west-2", "eu-north-1"),
    ],
)
def test_the_region_is_that_of_awss_own_commands(
    monkeypatch: pytest.MonkeyPatch, asked: str, of_aws: str, of_boto3: str, taken: str
) -> None:
    monkeypatch.setenv("AWS_REGION", of_aws)
    monkeypatch.setenv("AWS_DEFAULT_REGION", of_boto3)
    clients = make_clients(region=asked)
    assert (clients.region, clients.ec2.meta.region_name) == (taken, taken)


@pytest.mark.parametrize(
    "value",
    [
        "2026-11-23T04:05:06Z",
        "2026-11-23T04:05:06.789Z",
        "20261123T040506Z",
        "2026-11-23T04:05:06+09:00",
        "Mon, 23 Nov 2026 04:05:06 GMT",
        "1795406706",
        1795406706.5,
    ],
)
def test_a_time_is_what_botocore_reads(value: Any) -> None:
    assert timestamp(value) == parse_timestamp(value)


@pytest.mark.parametrize("value", ["", "Z", "2026-13-23T04:05:06Z"])
def test_what_is_no_time_is_refused_as_botocore_refuses_it(value: str) -> None:
    with pytest.raises(ValueError, match="Invalid timestamp"):
        timestamp(value)


def test_answers_are_read_so(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    def dear(value: object, **_options: object) -> None:
        pytest.fail(f"{value} went to the parser for dates of any form")

    monkeypatch.setattr("dateutil.parser.parse", dear)
    assert cloud.clients.ec2.describe_spot_price_history(MaxResults=5)["SpotPriceHistory"]
