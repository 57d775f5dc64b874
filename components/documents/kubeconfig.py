"""A kubeconfig for the cluster, whose token comes from the AWS CLI at every use."""

from __future__ import annotations

import json

from components.documents.credentials import Credentials, token_script


def kubeconfig(cluster: str, credentials: Credentials, endpoint: str, certificate_authority_data: str) -> str:
    """As JSON, which every kubeconfig reader takes. There is no secret in it, but it tells where the API is."""
    command = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "sh",
        "args": ["-c", token_script(cluster, credentials)],
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
