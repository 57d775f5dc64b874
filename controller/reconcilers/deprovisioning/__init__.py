"""Removal of nodes: find commands by method, execute them, record them on nodes."""
