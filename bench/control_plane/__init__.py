"""Measurements of a controller on a real control plane: scale, and mass interruptions."""
