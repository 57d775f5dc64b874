"""Kubernetes and Karpenter objects as frozen values; v1alpha5/ knows that API's spelling."""
