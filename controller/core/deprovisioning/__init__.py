"""Methods of removal: repair, emptiness, expiration, drift, consolidation; gate, budgets, back-off."""
