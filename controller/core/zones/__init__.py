"""Zones: their shares of CPU, and the hints that keep a Service's traffic inside them."""
