"""A kubeconfig for the cluster, whose token comes from the AWS CLI at every use."""

from __future__ import annotations

import json


def kubeconfig(cluster: str, region: str, endpoint: str, certificate_authority_data: str) -> str:
    """As JSON, which every kubeconfig reader takes. There is no secret in it, but it tells where the API is."""
    command = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "aws",
        "args": ["eks", "get-token", "--cluster-name", cluster, "--region", region, "--output", "json"],
        "interactiveMode": "Never",
    }
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": cluster,
            "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": cluster}}],
            "clusters": [
                {
                    "name": cluster,
                    "cluster": {"server": endpoint, "certificate-authority-data": certificate_authority_data},
                }
            ],
            "users": [{"name": cluster, "user": {"exec": command}}],
        }
    )
