"""The Kubernetes and Karpenter objects the controller reads: parsed, defaulted and validated into frozen values."""
