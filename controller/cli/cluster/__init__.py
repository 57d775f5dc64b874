"""A cluster, live or from a dump, with types and prices: what the verbs look at."""
