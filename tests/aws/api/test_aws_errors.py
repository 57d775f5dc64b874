"""botocore's errors become ours: the class says what to do, the message what failed, on what, and the remedy."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError

from controller.aws.api.aws_errors import transient, translate, translated
from controller.errors import (
    CloudError,
    CloudThrottledError,
    CloudUnauthorizedError,
    InstanceNotFoundError,
    InsufficientCapacityError,
    NodeTemplateError,
)


def refused(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "because"}}, "Operation")


@pytest.mark.parametrize(
    ("code", "expected", "remedy"),
    [
        ("UnauthorizedOperation", CloudUnauthorizedError, "allow ec2:CreateFleet in the policy"),
        ("AccessDeniedException", CloudUnauthorizedError, "allow ec2:CreateFleet in the policy"),
        ("ExpiredToken", CloudUnauthorizedError, "expired or not valid"),
        ("RequestExpired", CloudUnauthorizedError, "expired or not valid"),
        ("AuthFailure", CloudUnauthorizedError, "expired or not valid"),
        ("RequestLimitExceeded", CloudThrottledError, "tried again later"),
        ("ThrottlingException", CloudThrottledError, "tried again later"),
        ("InsufficientInstanceCapacity", InsufficientCapacityError, "because"),
        ("InvalidInstanceID.NotFound", InstanceNotFoundError, "because"),
        ("InvalidAMIID.NotFound", NodeTemplateError, "correct the AWSNodeTemplate"),
        ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", CloudUnauthorizedError, "create-service-linked-role"),
        ("InternalError", CloudError, "because"),
    ],
)
def test_codes(code: str, expected: type[CloudError], remedy: str) -> None:
    error = translate(refused(code), "ec2:CreateFleet", "Provisioner default")
    assert type(error) is expected
    assert error.code == code
    assert str(error).startswith(f"ec2:CreateFleet for Provisioner default: {code}: because")
    assert remedy in str(error)


def test_no_answer_and_no_credentials_are_told_apart() -> None:
    gone = translate(EndpointConnectionError(endpoint_url="https://ec2"), "ec2:DescribeSubnets")
    assert type(gone) is CloudError
    assert "no answer from AWS" in str(gone)
    assert isinstance(translate(NoCredentialsError(), "ec2:DescribeSubnets"), CloudUnauthorizedError)


def test_the_cause_is_chained_and_what_is_not_awss_passes() -> None:
    with pytest.raises(CloudError) as caught, translated("ec2:DescribeSubnets"):
        raise refused("InternalError")
    assert isinstance(caught.value.__cause__, ClientError)
    with pytest.raises(KeyError), translated("ec2:DescribeSubnets"):
        raise KeyError("a defect of ours")


@pytest.mark.parametrize(
    ("code", "passes"), [("RequestLimitExceeded", True), ("InternalError", True), ("InvalidParameterValue", False)]
)
def test_what_passes_by_itself_is_transient(code: str, passes: bool) -> None:
    assert transient(translate(refused(code), "a")) is passes


def test_what_somebody_must_mend_is_not_transient() -> None:
    assert not transient(translate(refused("AccessDenied"), "a"))
    assert not transient(NodeTemplateError("no subnet"))
