"""A node's loops: registration, interruption, termination, garbage collection."""
