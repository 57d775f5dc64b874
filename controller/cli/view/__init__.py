"""The nodes of a cluster, live: use, price, limits, pending pods and why, decisions."""
