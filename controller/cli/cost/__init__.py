"""What each namespace and workload of a cluster costs."""
