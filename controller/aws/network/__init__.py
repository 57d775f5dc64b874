"""Subnets and security groups, found by selector."""
