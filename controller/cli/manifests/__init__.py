"""A stack file as plain Kubernetes objects and IAM policies."""
