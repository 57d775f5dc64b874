"""From a planned node to a Node: the one launch pipeline."""
