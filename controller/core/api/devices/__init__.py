"""Kinds of dynamic resource allocation (DRA, KEP-4381): resource.k8s.io/v1, and its betas where they differ."""
