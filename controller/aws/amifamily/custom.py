"""An image of the user's own: spec.amiSelector names it, spec.userData goes to it as written."""

from __future__ import annotations

from controller.aws.amifamily.family import AMIFamily, Bootstrap


def user_data(bootstrap: Bootstrap) -> str:
    """The user's text, byte for byte."""
    return bootstrap.custom or ""


CUSTOM = AMIFamily(name="Custom", aliases=(), user_data=user_data, ignored_kubelet_fields=("*",))
