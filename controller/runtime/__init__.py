"""Clock, workers, executors, failure log, metrics; the only room with threads of its own."""
