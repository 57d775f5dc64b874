"""Which nodes a workload would get, what they cost, and what cannot be placed."""
