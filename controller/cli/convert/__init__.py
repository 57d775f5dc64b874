"""Provisioners to v1 NodePools and back, with what is lost."""
