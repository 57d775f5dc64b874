"""Limits on launches beyond what pods need: money, speed, an on-demand base, headroom."""
