"""MaxResults and NextToken, the same for every list that the sandbox answers itself."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any, TypeVar

from sandbox.aws.wire import AwsError

T = TypeVar("T")


def page(
    items: Sequence[T], params: dict[str, Any], *, default_size: int | None, largest: int = 1000, error_code: str
) -> tuple[Sequence[T], str | None]:
    """The page that `params` asks for and the token of the next. `default_size` None: no paging unless asked for.

    Raises `error_code` for a token that is not ours, InvalidParameterValue for a size out of bounds.
    """
    token = params.get("NextToken")
    size = params.get("MaxResults") or default_size
    if size is not None and not 1 <= size <= largest:
        raise AwsError("InvalidParameterValue", f"Value ( {size} ) for parameter maxResults is invalid.")
    start = _offset(token, error_code) if token else 0
    if size is None or start + size >= len(items):
        return items[start:], None
    return items[start : start + size], base64.b64encode(f"offset={start + size}".encode()).decode()


def _offset(token: str, error_code: str) -> int:
    try:
        text = base64.b64decode(token, validate=True).decode()
        return int(text.removeprefix("offset="))
    except (binascii.Error, UnicodeDecodeError, ValueError) as error:
        raise AwsError(error_code, f"The token '{token}' is invalid") from error
