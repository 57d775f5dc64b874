"""Which nodes are removed together: the order in which a set grows, and what each node costs beyond its pods' worth."""
