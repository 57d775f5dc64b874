"""Sets of nodes that are removed together: how a set grows, the part that is still removable, and moves as planned."""
