"""Rules between pods and nodes: the requirement algebra, taints, host ports, volumes, topology."""
