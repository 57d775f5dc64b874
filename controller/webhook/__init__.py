"""EDGE: the admission server. Rules and defaults of our kinds are applied before the API server stores an object."""
