"""Rules between pods and nodes: requirements, taints, host ports, label selectors."""
