"""Leader election: one acts, others stand by, and nobody acts on a lease that may be another's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from controller.kube.client import KubeClient
from controller.kube.lease import LEASE_NAME, LeaderElector, LeaseOptions
from controller.kube.resources import LEASES
from controller.runtime.clock import SystemClock
from tests.kube.server import Server, eventually
from tests.manual_clock import ManualClock
from tests.runtime.virtual_time import VirtualTime

NEVER = threading.Event()
NAMESPACE = "kube-system"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def first(client: KubeClient, clock: ManualClock) -> Iterator[LeaderElector]:
    elector = LeaderElector(client, NAMESPACE, "pod-1", clock)
    yield elector
    elector.release()


def second(client: KubeClient, clock: ManualClock, identity: str = "pod-2") -> LeaderElector:
    return LeaderElector(client, NAMESPACE, identity, clock)


def spec(client: KubeClient) -> dict[str, object]:
    spec: dict[str, object] = client.get(LEASES, LEASE_NAME, NAMESPACE)["spec"]
    return spec


def test_the_first_candidate_leads_at_once(client: KubeClient, clock: ManualClock, first: LeaderElector) -> None:
    assert first.acquire(NEVER)
    assert first.leading
    assert clock.waits == []
    lease = spec(client)
    assert (lease["holderIdentity"], lease["leaseDurationSeconds"], lease["leaseTransitions"]) == ("pod-1", 15, 0)


def test_a_leader_that_died_is_followed_after_the_lease_ran_out_and_not_before(
    client: KubeClient, clock: ManualClock, first: LeaderElector
) -> None:
    assert first.acquire(NEVER)
    begun = clock.monotonic()
    assert second(client, clock).acquire(NEVER)
    assert 15.0 <= clock.monotonic() - begun < 20.0
    assert spec(client)["holderIdentity"] == "pod-2"
    assert spec(client)["leaseTransitions"] == 1
    assert not first.leading, "its renew deadline passed long before"


def test_who_takes_its_own_lease_over_knows_whether_it_was_given_up(
    client: KubeClient, clock: ManualClock, first: LeaderElector
) -> None:
    """A crash is followed at once, without the wait in which the cloud's answers catch up."""
    assert first.acquire(NEVER)
    assert not first.follows_a_crash
    again = second(client, clock, "pod-1")
    assert again.acquire(NEVER)
    assert again.follows_a_crash
    again.release()
    third = second(client, clock, "pod-1")
    assert third.acquire(NEVER)
    assert not third.follows_a_crash
    third.release()


def test_a_standby_waits_as_long_as_the_leader_renews(
    client: KubeClient, first: LeaderElector, clock: ManualClock
) -> None:
    assert first.acquire(NEVER)
    standby, stop = second(client, clock), threading.Event()

    class Renewing(ManualClock):
        def wait(self, event: threading.Event, seconds: float) -> bool:
            """Between two looks of the standby the leader renews; after a minute the test ends."""
            assert first.renew_once()
            clock.advance(seconds)
            if clock.now() - begun > 60:
                stop.set()
            return event.is_set()

    begun = clock.now()
    standby.clock = Renewing()
    assert not standby.acquire(stop)
    assert spec(client)["holderIdentity"] == "pod-1"


def test_a_lease_that_was_released_is_taken_at_once(
    client: KubeClient, clock: ManualClock, first: LeaderElector
) -> None:
    assert first.acquire(NEVER)
    first.release()
    assert not first.leading
    waits = len(clock.waits)
    assert second(client, clock).acquire(NEVER)
    assert len(clock.waits) == waits


def test_a_restart_in_place_takes_its_own_lease_over_at_once(
    client: KubeClient, clock: ManualClock, first: LeaderElector
) -> None:
    assert first.acquire(NEVER)
    acquired = spec(client)["acquireTime"]
    again = second(client, clock, identity="pod-1")
    assert again.acquire(NEVER)
    assert clock.waits == []
    assert (spec(client)["acquireTime"], spec(client)["leaseTransitions"]) == (acquired, 0)


def test_clocks_need_not_agree(client: KubeClient, clock: ManualClock, first: LeaderElector) -> None:
    """The standby's clock is a day ahead: the lease looks long gone, but it has not seen it stand still."""
    assert first.acquire(NEVER)
    ahead = ManualClock(clock.now() + 86_400)
    begun = ahead.monotonic()
    assert second(client, ahead).acquire(NEVER)
    assert ahead.monotonic() - begun >= 15.0


def test_a_leader_that_cannot_renew_is_told_before_another_may_lead(
    server: Server, client: KubeClient, clock: ManualClock
) -> None:
    """In one thread: on two, the clock could run ahead between a step and the wait that it asks for."""
    time = VirtualTime(clock)
    leader = LeaderElector(client, NAMESPACE, "pod-1", clock, run=time.run)
    assert leader.acquire(NEVER)
    acquired_at = clock.monotonic()
    server.fault(kind="errors", seconds=3600, code=500, rate=1.0)
    lost: list[float] = []
    with capture_logs() as logs:
        leader.keep(lambda: lost.append(clock.monotonic()))
        while not lost and clock.monotonic() < acquired_at + 60.0:
            time.turn()
    assert 10.0 <= lost[0] - acquired_at < 15.0
    assert not leader.leading
    said = [line["event"] for line in logs]
    assert said.count("Lost the lead") == 1
    assert said.count("Lease cannot be read or written") <= 1


def test_a_renewal_that_hangs_does_not_hide_that_time_is_up(server: Server, client: KubeClient) -> None:
    elector = LeaderElector(client, NAMESPACE, "pod-1", SystemClock(), options=LeaseOptions(6.0, 0.5, 0.1))
    patient = KubeClient(client.connection, client.options)
    elector.client = patient
    assert elector.acquire(NEVER)
    server.fault(kind="latency", seconds=600, delay_seconds=600)
    lost = threading.Event()
    with capture_logs() as logs:
        elector.keep(lost.set)
        assert lost.wait(15)
    assert [line["event"] for line in logs] == ["Lost the lead"], "no answer came, not even a refusal"
    assert not elector.leading


def test_a_leader_that_renews_keeps_the_lead(client: KubeClient) -> None:
    elector = LeaderElector(client, NAMESPACE, "pod-1", SystemClock(), options=LeaseOptions(30.0, 20.0, 0.02))
    assert elector.acquire(NEVER)
    lost = threading.Event()
    elector.keep(lost.set)
    times = set()

    def renewed() -> bool:
        times.add(spec(client)["renewTime"])
        return len(times) >= 4

    eventually(renewed, "three renewals")
    assert elector.leading
    assert not lost.is_set()
    elector.release()
    assert not lost.is_set()
    assert spec(client)["holderIdentity"] == ""


def test_a_lease_in_other_hands_is_lost_at_once(client: KubeClient, clock: ManualClock, first: LeaderElector) -> None:
    assert first.acquire(NEVER)
    lease = client.get(LEASES, LEASE_NAME, NAMESPACE)
    lease["spec"] |= {"holderIdentity": "usurper"}
    client.update(LEASES, lease)
    lost = threading.Event()
    first.keep(lost.set)
    assert lost.wait(15)
    assert not first.leading
    first.release()
    assert spec(client)["holderIdentity"] == "usurper", "a lease that is not ours is not released"


def test_a_lease_that_was_deleted_is_made_again(client: KubeClient, first: LeaderElector) -> None:
    assert first.acquire(NEVER)
    client.delete(LEASES, LEASE_NAME, NAMESPACE)
    assert first.renew_once()
    assert spec(client)["holderIdentity"] == "pod-1"


def test_of_two_candidates_at_the_same_moment_one_leads(client: KubeClient, clock: ManualClock) -> None:
    candidates = [LeaderElector(client, NAMESPACE, f"pod-{number}", clock) for number in range(8)]
    barrier = threading.Barrier(len(candidates))
    results: list[bool] = []

    def run(candidate: LeaderElector) -> None:
        barrier.wait(10)
        results.append(candidate.renew_once())

    threads = [threading.Thread(target=run, args=(candidate,)) for candidate in candidates]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(results) == [False] * 7 + [True]


def test_candidacy_outlasts_an_outage(server: Server, client: KubeClient, first: LeaderElector) -> None:
    server.fault(kind="outage", seconds=0.3)
    with capture_logs() as logs:
        assert first.acquire(NEVER)
    assert [line["event"] for line in logs] == ["Lease cannot be read or written", "Leads"]


def test_stopping_ends_candidacy(client: KubeClient, clock: ManualClock, first: LeaderElector) -> None:
    assert first.acquire(NEVER)
    stop = threading.Event()
    stop.set()
    assert not second(client, clock).acquire(stop)


def test_times_that_cannot_work_are_refused() -> None:
    with pytest.raises(ValueError, match="longer"):
        LeaseOptions(lease_duration_seconds=5, renew_deadline_seconds=10)


def test_a_renewal_is_one_request_unless_another_may_have_written_the_lease(
    client: KubeClient, first: LeaderElector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request is a chance to miss the deadline while the API server or this machine is busy."""
    assert first.acquire(NEVER)
    reads, read = list[object](), first.client.get

    def counted(*args: Any) -> Any:
        reads.append(args)
        return read(*args)

    monkeypatch.setattr(first.client, "get", counted)
    before = spec(client)
    assert first.renew_once()
    assert reads == []
    lease = client.get(LEASES, LEASE_NAME, NAMESPACE)
    client.update(LEASES, {**lease, "metadata": {**lease["metadata"], "labels": {"touched": "yes"}}})
    assert first.renew_once()
    assert len(reads) == 1
    assert spec(client)["acquireTime"] == before["acquireTime"]
    assert spec(client)["leaseTransitions"] == 0
