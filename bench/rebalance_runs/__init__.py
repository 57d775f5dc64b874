"""Rebalances of fragmented clusters: cost over the bound, and pods moved over the least that is proven."""
