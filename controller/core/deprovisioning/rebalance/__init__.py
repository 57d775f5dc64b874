"""Rebalance: which nodes have to go for a fleet near the cheapest one, by the fewest moved pods, and in which steps."""
