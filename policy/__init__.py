"""A policy pack for teams: `pulumi preview --policy-pack policy` (docs/guides/policies.md)."""
