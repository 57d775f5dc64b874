"""The workload and node controllers of kube-controller-manager, as far as a cluster without one needs them."""

from __future__ import annotations

from sandbox.world.controllers.base import Controller
from sandbox.world.controllers.daemonset import DaemonSetController
from sandbox.world.controllers.deployment import DeploymentController
from sandbox.world.controllers.nodelifecycle import NodeLifecycleController
from sandbox.world.controllers.replicaset import ReplicaSetController

CONTROLLERS: tuple[type[Controller], ...] = (
    DaemonSetController,
    DeploymentController,
    NodeLifecycleController,
    ReplicaSetController,
)
