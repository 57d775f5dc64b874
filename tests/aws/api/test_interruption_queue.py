"""The interruption queue over SQS, fed by the sandbox's EventBridge as EC2 feeds it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.aws.api.interruption_queue import SqsQueue
from controller.aws.provider import AWSProvider
from controller.core.api import labels as keys
from controller.core.machines.interruption_messages import Interruption, Kind, parse_message
from controller.errors import CloudError
from tests.aws.conftest import CLUSTER, SETTINGS, Cloud, Types, available, request


def test_a_spot_warning_arrives_and_is_deleted(cloud: Cloud, provider: AWSProvider, types: Types) -> None:
    queue = SqsQueue(cloud.clients.sqs, CLUSTER, poll_seconds=0)
    cloud.clients.sqs.purge_queue(QueueUrl=cloud.clients.sqs.get_queue_url(QueueName=CLUSTER)["QueueUrl"])
    instance = provider.create(request(types, names=["m5.large"], capacity_types=[keys.SPOT]))
    known = cloud.aws.world.instances.get(instance.id)
    assert known is not None
    cloud.aws.world.interruptions.interrupt(known, "spot", cloud.clock.now())
    events: dict[Kind, Interruption] = {}
    while messages := queue.receive():
        for message in messages:
            event = parse_message(message.body)
            events[event.kind] = event
        queue.delete(messages)
    assert events[Kind.SPOT_INTERRUPTION].instance_ids == (instance.id,)
    assert queue.receive() == ()


def test_a_queue_that_does_not_exist_is_a_cloud_error(cloud: Cloud) -> None:
    provider = cloud.provider(replace(SETTINGS, interruption_queue_name="nowhere"))
    with pytest.raises(CloudError, match="queue nowhere"):
        provider.interruptions.receive()


def test_without_a_name_in_the_settings_the_queue_is_empty(cloud: Cloud) -> None:
    assert cloud.provider().interruptions.receive() == ()


def test_an_offering_that_was_taken_back_is_not_planned(provider: AWSProvider) -> None:
    before = available(provider, "m5.large", keys.SPOT)
    zone = next(zone for zone, there in sorted(before.items()) if there)
    provider.spot_interrupted("m5.large", zone)
    assert available(provider, "m5.large", keys.SPOT) == {**before, zone: False}
