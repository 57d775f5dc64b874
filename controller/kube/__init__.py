"""Edge: the Kubernetes API: client on raw JSON, watches, informers, events, lease."""
