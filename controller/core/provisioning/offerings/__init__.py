"""What can be launched, and the existing nodes, as arrays."""
