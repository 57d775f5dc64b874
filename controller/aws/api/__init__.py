"""Calls to AWS: clients, errors, batching, caching, tags, the interruption queue."""
