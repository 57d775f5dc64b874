"""A cluster, live or from a dump, with instance types and prices: the input of the verbs."""
