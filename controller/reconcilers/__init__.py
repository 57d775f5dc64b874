"""Loops that ask the core and act on its answer."""
