"""`python -m sandbox.world` as its own process, beside the sandbox's AWS and API server: a launched instance joins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import apiserver, aws
from sandbox.apiserver import Running
from sandbox.processes import Child, Processes
from tests.sandbox.world.harness import Cluster, ScriptedCloud

USER_DATA = "#!/bin/bash\n/etc/eks/bootstrap.sh 'demo' --kubelet-extra-args '--node-labels=pool=first'\n"


@pytest.fixture
def cloud() -> Iterator[aws.Aws]:
    with aws.serve() as running:
        yield running


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Running]:
    with apiserver.serve(kubeconfig=tmp_path / "kubeconfig") as running:
        yield running


@pytest.fixture
def world(tmp_path: Path, api: Running, cloud: aws.Aws) -> Iterator[Child]:
    command = ["sandbox.world", "--kubeconfig", str(tmp_path / "kubeconfig"), "--ec2-endpoint", cloud.endpoint]
    with Processes(tmp_path / "logs") as processes:
        child = processes.start("world", [*command, "--cluster", "demo", "--time-scale", "20"])
        child.wait_for_line("ready")
        yield child


def test_an_instance_joins_runs_and_leaves(api: Running, cloud: aws.Aws, world: Child) -> None:
    """RunInstances → Node Ready with the type's true numbers; TerminateInstances → Node gone; SIGTERM → exit code 0."""
    ec2 = cloud.client("ec2")
    subnet = ec2.describe_subnets()["Subnets"][0]
    tags = [{"Key": "kubernetes.io/cluster/demo", "Value": "owned"}]
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    (launched,) = ec2.run_instances(
        ImageId=image, InstanceType="m5.large", MinCount=1, MaxCount=1, SubnetId=subnet["SubnetId"],
        UserData=USER_DATA, TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
    )["Instances"]  # fmt: skip
    kube = Cluster(api, ScriptedCloud(), real=False)
    node = kube.ready_node(launched["PrivateDnsName"])
    assert node["metadata"]["labels"]["pool"] == "first"
    assert node["spec"]["providerID"] == f"aws:///{subnet['AvailabilityZone']}/{launched['InstanceId']}"
    assert node["status"]["allocatable"]["cpu"] == "1930m"
    assert node["status"]["allocatable"]["pods"] == "29"
    ec2.terminate_instances(InstanceIds=[launched["InstanceId"]])
    kube.eventually(lambda: kube.node(launched["PrivateDnsName"]) is None)
    assert world.stop(timeout_seconds=100.0) == 0, world.tail()
    assert "Traceback" not in world.tail(200)
