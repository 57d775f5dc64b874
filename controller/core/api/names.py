"""The syntax of Kubernetes names: qualified names, label values, DNS labels.

Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set and
https://kubernetes.io/docs/concepts/overview/working-with-objects/names/. Each function returns what is wrong, or ""
for a valid name.
"""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_DNS_1123: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_DNS_1035: Final = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?", re.ASCII)
_MAX_NAME: Final = 63
_MAX_PREFIX: Final = 253
_NAME_RULE: Final = "letters, digits, '-', '_' and '.', with a letter or digit at both ends, 63 at most"


def qualified_name_error(key: str) -> str:
    """Return what is wrong with a label or taint key: an optional DNS subdomain and "/", then a name."""
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > _MAX_PREFIX or not _DNS_1123.fullmatch(prefix)):
        return f"{key!r} is not a qualified name: the part before '/' must be a DNS subdomain of lower-case letters"
    if len(name) > _MAX_NAME or not _NAME.fullmatch(name):
        return f"{key!r} is not a qualified name: the name must be {_NAME_RULE}"
    return ""


def label_value_error(value: str) -> str:
    """Return what is wrong with a label value: empty, or a name."""
    if value and (len(value) > _MAX_NAME or not _NAME.fullmatch(value)):
        return f"{value!r} is not a label value: it must be empty or {_NAME_RULE}"
    return ""


def dns_1035_error(name: str) -> str:
    """Return what is wrong with a DNS-1035 label: lower-case letter first, then letters, digits and '-', 63 at most."""
    if len(name) > _MAX_NAME or not _DNS_1035.fullmatch(name):
        return (
            f"{name!r} must start with a lower-case letter and have only lower-case letters, digits and '-', 63 at most"
        )
    return ""
