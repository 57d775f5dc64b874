"""AWS's service models, as botocore has them: megabytes of JSON that every session reads anew."""

from __future__ import annotations

from functools import cache

from botocore.loaders import JSONFileLoader


def read_once() -> None:
    """Let all sessions of this process share what one has read: about a second of processor time in the sandbox."""
    JSONFileLoader.load_file = staticmethod(cache(JSONFileLoader().load_file))  # type: ignore[method-assign]
