"""Column generation over what single bins hold, for small batches: bounds, dives, searches, numbers of bins."""
