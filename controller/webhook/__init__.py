"""Edge: admission over HTTPS: defaults and rules of our kinds, its own certificate."""
