"""The world of the reconcilers' tests, for the launches that reconcilers ask for."""

from tests.reconcilers.conftest import world

__all__ = ["world"]
