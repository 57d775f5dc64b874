"""Methods of removal: emptiness, expiration, drift, consolidation; gate, budgets, back-off."""
