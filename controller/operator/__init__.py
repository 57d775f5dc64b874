"""The process: options, settings, start-up, and the composition of all loops."""
