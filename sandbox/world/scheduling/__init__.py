"""kube-scheduler's filters and scores as pure functions over parsed pods and nodes.

Written from the Kubernetes documentation and behaviour (1.34), independently of the controller's solver: the sandbox is
where the solver's misunderstandings must show.
"""
