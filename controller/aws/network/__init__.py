"""Subnets and security groups by selector."""
