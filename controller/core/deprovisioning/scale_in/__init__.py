"""What consolidation tells ReplicaSets before they are scaled in: which pods to delete first."""
