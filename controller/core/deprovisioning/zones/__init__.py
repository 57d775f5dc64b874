"""Nodes that are moved to other zones, so that their Provisioner keeps its zone balance."""
