"""A Kubernetes API server over HTTP in one Python process: enough of 1.34 for controllers, `kubectl` and tests.

`python -m sandbox.apiserver --kubeconfig PATH` runs it alone; `serve()` runs it inside a test.
What it does not do is listed in its README.md; the contract tests in tests/contract run against it and the real one.
"""

from sandbox.apiserver.runner import Running, serve

__all__ = ["Running", "serve"]
