"""Secrets of the stack's configuration, kept secret in the engine's state and in its diffs.

The engine says which top-level keys hold a secret, and hands their values over in plain text. What a secret may be is
free text: variables of the controller, values of add-ons, specs of objects, settings, a kubeconfig. All of that is
secret under such a key. Names and choices are not: they name resources, and decide what is declared at all.
"""

from __future__ import annotations

FREE_TEXT = {
    "addons": "values",
    "cluster": "kubeconfig",
    "controller": "env",
    "nodeTemplates": "spec",
    "provisioners": "spec",
    "settings": "all of it",
}
"""What stays secret under each top-level key."""


def secret_warnings(secret_keys: frozenset[str]) -> list[str]:
    """Keys with a secret under which nothing can be kept secret."""
    return [
        f"{key}: is encrypted, but its values are names and choices that the state shows; nothing in it stays secret"
        for key in sorted(secret_keys - set(FREE_TEXT))
    ]
