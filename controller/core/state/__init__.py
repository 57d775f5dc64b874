"""The cluster state: one owner applies changes, readers get immutable snapshots."""
