"""The cluster as the controller knows it: events are applied by one owner, readers get immutable snapshots."""
