"""Settings without effect are told to the user once for each version of the objects."""

from __future__ import annotations

from dataclasses import replace

from structlog.testing import capture_logs

from controller.aws.amifamily import family_of
from controller.aws.provisioner_advice import advice
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.api.provisioner import Provisioner
from controller.errors import NodeTemplateError
from controller.kube.resources import AWS_NODE_TEMPLATES, PROVISIONERS
from controller.reconcilers.status.advice_reconciler import AdviceReconciler
from controller.settings import Settings
from tests.reconcilers.cloud import MemoryCloud
from tests.reconcilers.conftest import World


class AdvisingCloud(MemoryCloud):
    """Gives the advice that AWSProvider gives."""

    def advice(self, provisioner: Provisioner, template: AWSNodeTemplate) -> tuple[str, ...]:
        return advice(provisioner, template, family_of(template), Settings(cluster_name="test"))


def test_bottlerockets_ignored_fields_are_told_once_and_again_when_the_provisioner_changes(world: World) -> None:
    world.add_provisioner(kubeletConfiguration={"podsPerCore": 2})
    world.kube.patch(AWS_NODE_TEMPLATES, "default", {"spec": {"amiFamily": "Bottlerocket"}})
    snapshot = world.until(lambda s: s.node_templates["default"].ami_family == "Bottlerocket")
    loop = AdviceReconciler(replace(world.context, cloud=AdvisingCloud()))
    with capture_logs() as logs:
        for _ in range(4):
            loop.reconcile(snapshot)
    (line,) = logs
    assert "podsPerCore" in line["advice"]
    event = world.await_event("SettingIgnored")
    assert (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == ("Provisioner", "default")

    world.kube.patch(PROVISIONERS, "default", {"spec": {"kubeletConfiguration": {"evictionMaxPodGracePeriod": 30}}})
    snapshot = world.until(lambda s: s.provisioners["default"].kubelet.eviction_max_pod_grace_period == 30)
    with capture_logs() as logs:
        loop.reconcile(snapshot)
    assert "evictionMaxPodGracePeriod, podsPerCore" in logs[0]["advice"]


def test_one_provisioner_without_a_template_does_not_keep_the_others_from_advice(world: World) -> None:
    world.add_provisioner(name="lost", providerRef={"name": "none"})
    world.add_provisioner(name="other")
    seen: list[str] = []

    class RefusingCloud(MemoryCloud):
        def advice(self, provisioner: Provisioner, _template: AWSNodeTemplate) -> tuple[str, ...]:
            seen.append(provisioner.name)
            raise NodeTemplateError("cannot be used")

    with capture_logs() as logs:
        AdviceReconciler(replace(world.context, cloud=RefusingCloud())).reconcile(world.informers.snapshot())
    assert seen == ["other"]
    assert {entry["log_level"] for entry in logs} == {"debug"}
