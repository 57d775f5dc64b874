"""The pure core: values in, values out. No I/O, clock, threads, randomness or logging."""
