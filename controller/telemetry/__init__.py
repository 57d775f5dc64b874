"""Edge: logs, Prometheus metrics, probes, the decision ledger."""
