"""Sets of nodes that are removed together: the order in which a set grows, and the part that is still removable."""
