"""User data as MIME multipart, in which cloud-init takes several scripts and configurations.

Sources: cloud-init, "MIME multi part archive"; EC2 user guide (16 KB before base64); Karpenter v0.27's boundary and
order (the user's parts first, the controller's last).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from email import message_from_string
from email.message import Message

from controller.errors import NodeTemplateError

SHELL_SCRIPT = 'text/x-shellscript; charset="us-ascii"'
BOUNDARY = "//"
MAX_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class Part:
    content_type: str
    body: str
    headers: tuple[tuple[str, str], ...] = ()
    """Further headers, as the user wrote them."""

    def without_carriage_returns(self) -> Part:
        """Return the part with newlines alone between its lines."""
        headers = tuple((name, value.replace("\r", "")) for name, value in self.headers)
        return Part(self.content_type.replace("\r", ""), self.body.replace("\r", ""), headers)


def merge_mime(custom: str | None, ours: Sequence[Part], subject: str) -> str:
    """Return the user's parts, then the controller's (`ours`).
    Raises NodeTemplateError when the former cannot be read."""
    # Carriage returns go first: without them a line may become a boundary.
    parts = [part.without_carriage_returns() for part in (*custom_parts(custom, subject), *ours)]
    boundary = BOUNDARY
    while any(f"--{boundary}" in part.body for part in parts):
        boundary += "/"
    lines = ["MIME-Version: 1.0", f'Content-Type: multipart/mixed; boundary="{boundary}"', ""]
    for part in parts:
        lines.append(f"--{boundary}")
        lines.append(f"Content-Type: {part.content_type}")
        lines.extend(f"{name}: {value}" for name, value in part.headers)
        lines.extend(("", part.body))
    lines.append(f"--{boundary}--")
    return "\n".join(lines) + "\n"


def custom_parts(custom: str | None, subject: str) -> list[Part]:
    """Return spec.userData as parts: those of a MIME document, or else one shell script."""
    if custom is None or not custom.strip():
        return []
    if not custom.strip().startswith(("MIME-Version:", "Content-Type: multipart/")):
        return [Part(SHELL_SCRIPT, custom)]
    try:
        message = message_from_string(custom.strip().replace("\r\n", "\n"))
        parts = [_part(part) for part in message.walk() if not part.is_multipart()]
    except RecursionError:
        raise NodeTemplateError(f"{subject}: spec.userData nests its MIME parts too deep; write one level") from None
    if message.defects or not message.is_multipart():
        reasons = ", ".join(type(defect).__name__ for defect in message.defects) or "it is not multipart"
        raise NodeTemplateError(
            f"{subject}: spec.userData begins as a MIME document but cannot be read ({reasons}); "
            'give it a "Content-Type: multipart/mixed; boundary=..." header, or write a plain script'
        )
    return parts


def _part(message: Message) -> Part:
    headers = tuple(
        (name, value) for name, value in message.items() if name.lower() not in ("content-type", "mime-version")
    )
    return Part(str(message.get("Content-Type", "text/plain")), str(message.get_payload()), headers)


def check_size(text: str, subject: str) -> str:
    """Return `text`. Raises NodeTemplateError when it is longer than EC2 allows."""
    size = len(text.encode())
    if size > MAX_BYTES:
        raise NodeTemplateError(
            f"{subject}: user data of {size} bytes is above EC2's limit of {MAX_BYTES}; shorten spec.userData "
            "(fetch large files at boot instead)"
        )
    return text
