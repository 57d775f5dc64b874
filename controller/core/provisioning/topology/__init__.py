"""Spread and (anti-)affinity: groups, domains, bundles, allocation to domains."""
