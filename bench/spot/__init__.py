"""Spot nodes: what they are expected to cost, and correlated losses."""
