"""Documents as pure functions of plain values: IAM policies, Kubernetes objects, event patterns. No Pulumi here."""
