"""`nodeless view`: the nodes of a cluster in a terminal."""
