"""Clock, workers that run the loops, executors, failure log, metrics."""
