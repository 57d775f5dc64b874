"""Prices of plans against something else that users want: fewer nodes, even zones."""
