"""NodeLess on a real control plane: `make e2e`. Only EC2 and the kubelets are simulated."""
