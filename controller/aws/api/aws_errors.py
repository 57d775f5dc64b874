"""Translate botocore's errors into CloudErrors that name the action that failed and the remedy.

Codes: EC2 API reference, "Error codes for the Amazon EC2 API"; SQS, SSM, EKS and IAM API references, "Common errors".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from botocore import exceptions

from controller import errors
from controller.errors import CloudError, CloudUnauthorizedError

# fmt: off
CAPACITY_CODES = frozenset({
    "InsufficientInstanceCapacity", "InsufficientCapacityOnOutpost", "InsufficientHostCapacity",
    "InsufficientReservedInstanceCapacity", "InstanceLimitExceeded", "InsufficientFreeAddressesInSubnet",
    "MaxSpotInstanceCountExceeded", "SpotMaxPriceTooLow", "UnfulfillableCapacity", "Unsupported", "VcpuLimitExceeded",
})
"""The offering has no capacity for a while. Karpenter v0.27 knew five of these codes; on the others its launch failed
without trying other offerings."""

OFFERING_CODES = CAPACITY_CODES | {"InvalidFleetConfiguration"}
"""Among the errors of a fleet, those about one offering: others may still have capacity. EC2 answers
InvalidFleetConfiguration for a type that the zone does not sell, even where DescribeInstanceTypeOfferings lists it."""

NO_ADDRESSES = "InsufficientFreeAddressesInSubnet"
FLEET_NOT_FOUND_CODES = frozenset({"InvalidFleetId.NotFound", "InvalidFleetId"})
NOT_FOUND_CODES = frozenset({"InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed"})
TEMPLATE_NOT_FOUND_CODES = frozenset({
    "InvalidLaunchTemplateName.NotFoundException", "InvalidLaunchTemplateId.NotFound",
    "InvalidLaunchTemplateId.NotFoundException",
})
TEMPLATE_EXISTS = "InvalidLaunchTemplateName.AlreadyExistsException"
TOKEN_MISMATCH_CODES = frozenset({"IdempotentParameterMismatch", "InvalidClientToken.Mismatch"})
THROTTLED_CODES = frozenset({
    "RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled",
    "RequestThrottledException", "TooManyRequestsException", "EC2ThrottledException", "PriorRequestNotComplete",
    "SlowDown", "BandwidthLimitExceeded",
})
UNAUTHORIZED_CODES = frozenset(
    {"UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "UnauthorizedAccess", "OptInRequired"}
)
CREDENTIAL_CODES = frozenset({
    "AuthFailure", "ExpiredToken", "ExpiredTokenException", "RequestExpired", "InvalidClientTokenId",
    "InvalidIdentityToken", "UnrecognizedClientException", "SignatureDoesNotMatch", "IncompleteSignature",
    "MissingAuthenticationToken",
})
NO_SPOT_ROLE = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
TEMPLATE_CODES = TEMPLATE_NOT_FOUND_CODES | {
    "InvalidAMIID.NotFound", "InvalidAMIID.Malformed", "InvalidAMIID.Unavailable", "InvalidBlockDeviceMapping",
    "InvalidGroup.NotFound", "InvalidIamInstanceProfile.NotFound", "InvalidKeyPair.NotFound",
    "InvalidSecurityGroupID.NotFound", "InvalidSnapshot.NotFound", "InvalidSubnetID.NotFound",
    "InvalidUserData.Malformed", "ParameterNotFound",
}
"""The node template refers to something that AWS does not know; its author has to correct it."""
# fmt: on

TRANSIENT_CODES = frozenset(
    {"", "InternalError", "InternalFailure", "ServiceUnavailable", "Unavailable", "RequestTimeout"}
)
"""No answer (empty), or a failure on AWS's side: the same call may succeed later."""

_CREDENTIAL_ERRORS = (
    *(exceptions.NoCredentialsError, exceptions.PartialCredentialsError),
    *(exceptions.CredentialRetrievalError, exceptions.TokenRetrievalError),
)


CREDENTIALS_REMEDY = (
    "set AWS_PROFILE, or sign in with `aws sso login`; in the cluster: an IRSA role or a Pod Identity association for "
    "the controller's service account"
)


def error_code(error: BaseException) -> str:
    """The API's error code, or empty."""
    if isinstance(error, exceptions.ClientError):
        return str(error.response.get("Error", {}).get("Code", ""))
    return ""


def transient(error: CloudError) -> bool:
    """Whether the same call may succeed later without a change by anybody."""
    if isinstance(error, errors.CloudThrottledError):
        return True
    return type(error) is CloudError and error.code in TRANSIENT_CODES


@contextmanager
def translated(action: str, subject: str = "") -> Iterator[None]:
    """Run an AWS call; botocore's errors are raised as CloudErrors.

    `action` is the IAM action (`ec2:CreateFleet`), `subject` what it was for (`AWSNodeTemplate default`).
    """
    try:
        yield
    except (exceptions.ClientError, exceptions.BotoCoreError) as error:
        raise translate(error, action, subject) from error


def translate(error: Exception, action: str, subject: str = "") -> CloudError:
    code = error_code(error)
    target = f"{action} for {subject}" if subject else action
    if not isinstance(error, exceptions.ClientError):
        if isinstance(error, _CREDENTIAL_ERRORS):
            return CloudUnauthorizedError(f"{target}: {error}; {CREDENTIALS_REMEDY}")
        return CloudError(f"{target}: no answer from AWS: {error}; it is tried again")
    return by_code(code, f"{target}: {code}: {error.response.get('Error', {}).get('Message', '')}", action)


_BY_CODE: tuple[tuple[frozenset[str], type[CloudError], str], ...] = (
    (
        frozenset({NO_SPOT_ROLE}),
        CloudUnauthorizedError,
        "; the account has no role for spot: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com",
    ),
    (UNAUTHORIZED_CODES, CloudUnauthorizedError, "; allow {action} in the policy of the controller's role"),
    (CREDENTIAL_CODES, CloudUnauthorizedError, "; the controller's credentials are expired or not valid"),
    (THROTTLED_CODES, errors.CloudThrottledError, "; it is tried again later"),
    (CAPACITY_CODES, errors.InsufficientCapacityError, ""),
    (NOT_FOUND_CODES, errors.InstanceNotFoundError, ""),
    (TEMPLATE_CODES, errors.NodeTemplateError, "; correct the AWSNodeTemplate"),
)
"""The error of an API error code, and the remedy."""


def by_code(code: str, message: str, action: str) -> CloudError:
    """The CloudError for an API error code, with the remedy."""
    for codes, error, remedy in _BY_CODE:
        if code in codes:
            return error(message + remedy.format(action=action), code)
    return CloudError(message, code)
