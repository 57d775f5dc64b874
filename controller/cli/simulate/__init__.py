"""`nodeless simulate`: which nodes a workload would get, and for how much."""
