"""A node from launch to removal: pure verdicts on registration, initialization, emptiness and draining."""
