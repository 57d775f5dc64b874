"""Pod deletion costs: have ReplicaSets that are scaled in delete first the pods that consolidation would move."""
