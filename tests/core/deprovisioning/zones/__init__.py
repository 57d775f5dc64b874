"""Tests of moves between zones."""
