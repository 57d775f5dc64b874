"""The workload and node controllers of kube-controller-manager, as far as a cluster without one needs them."""

from __future__ import annotations

from sandbox.world.controllers.base import Controller
from sandbox.world.controllers.daemonset import DaemonSetController
from sandbox.world.controllers.deployment import DeploymentController
from sandbox.world.controllers.disruption import DisruptionController
from sandbox.world.controllers.job import JobController
from sandbox.world.controllers.nodelifecycle import NodeLifecycleController
from sandbox.world.controllers.replicaset import ReplicaSetController
from sandbox.world.controllers.statefulset import StatefulSetController
from sandbox.world.controllers.volumebinding import VolumeBindingController

CONTROLLERS: tuple[type[Controller], ...] = (
    DaemonSetController,
    DeploymentController,
    DisruptionController,
    JobController,
    NodeLifecycleController,
    ReplicaSetController,
    StatefulSetController,
    VolumeBindingController,
)
