"""Removals on record on the nodes: begun, carried on by whoever leads, finished or taken back."""
