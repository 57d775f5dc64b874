"""A node's life as pure decisions: what to launch, when it counts as initialized or empty, how it is drained."""
