"""The living part of the sandbox cluster: kubelets, the cloud's side of a node, the scheduler, the workload
controllers.

Everything here is a client of the Kubernetes API (and of EC2), as it is in a real cluster, so any part can be left out
where the real one runs (`python -m sandbox.world --only kubelets` beside a real control plane).
"""
