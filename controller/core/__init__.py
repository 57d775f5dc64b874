"""Pure: values in, values out; no I/O, clock, threads, randomness or logging."""
