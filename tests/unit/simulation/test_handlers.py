"""The four handlers on the fake kernel: as on the real ones (tests/kernel/test_handlers.py)."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as few
from hypothesis import strategies as st

from slackwater.contract.kubernetes_pod import read_pod
from slackwater.model.cgroup import CgroupRef, CgroupVersion, Level, Tier
from slackwater.model.knob import BURST, IDLE, MEMORY_HIGH, MEMORY_MAX, QUOTA, WEIGHT, Knob
from slackwater.model.plan import Result
from slackwater.model.units import UNLIMITED, Bandwidth, Unlimited
from slackwater.policies.catalog import POLICIES
from slackwater.settings.agent_document import Settings
from tests.unit.simulation.mortal import Bed, doomed_ledger

pytestmark = pytest.mark.long

BATCH_CPU, BATCH_MEMORY = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"
IDS = ("a" * 64, "b" * 64)
V1, V2 = CgroupVersion.V1, CgroupVersion.V2
NAMES = tuple(policy.name for policy in POLICIES)
SAID = {
    "volcano.sh/qos-level": "BE",
    "volcano.sh/enable-quota-burst": "true",
    "volcano.sh/colocation-config": '{"memoryQos": {"highRatio": 50}}',
}


def chosen(*names: str) -> Settings:
    return Settings(
        policies={policy.name: policy.settings(enabled=policy.name in names) for policy in POLICIES}
    )


class Node:
    """A bed with one best-effort pod of two containers, which asks for whatever it is told to."""

    def __init__(self, folder: Path, version: CgroupVersion) -> None:
        self.bed = Bed(folder, version, 4, chosen())
        made = self.bed.node
        self.pod = made.kernel.make("kubepods/besteffort/podjob", Level.POD, Tier.BESTEFFORT, "job")
        self.inner = [
            made.kernel.make(f"{self.pod.path}/{each}", Level.CONTAINER, Tier.BESTEFFORT, "job")
            for each in IDS
        ]
        for ref in (self.pod, *self.inner):
            made.put(ref, WEIGHT, 17)

    def ask(self, limits: tuple[int, ...], said: dict[str, str]) -> None:
        names = [f"c{number}" for number in range(len(limits))]
        amounts = [{BATCH_CPU: str(cpu), BATCH_MEMORY: str(cpu * 2**20)} for cpu in limits]
        containers = [
            {"name": name, "resources": {"limits": each}}
            for name, each in zip(names, amounts, strict=True)
        ]
        ids = [{"name": name, "containerID": each} for name, each in zip(names, IDS, strict=False)]
        document = {
            "kind": "Pod",
            "metadata": {"name": "job", "uid": "job", "annotations": said},
            "spec": {"containers": containers},
            "status": {"phase": "Running", "containerStatuses": ids},
        }
        source = self.bed.source
        pods = (read_pod(document, "a test"),)
        source.objects = msgspec.structs.replace(source.objects, pods=pods)

    def value(self, ref: CgroupRef, knob: Knob) -> Any:
        return self.bed.kernel.read(ref, knob)

    def limit(self, ref: CgroupRef) -> int | Unlimited:
        found = self.value(ref, QUOTA)
        assert isinstance(found, Bandwidth)
        return found.limit

    def settle(self) -> None:
        """Some rounds; nothing is refused, nobody else suspected, and the last has nothing to do
        but what the best-effort tier's own ramp does."""
        for _ in range(4):
            record = self.bed.once()
            refused = [o for o in record.outcomes if o.result is Result.REFUSED]
            assert refused == []
            assert record.story.notes == ()


@pytest.fixture(params=[V1, V2], ids=lambda version: version.value)
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path, request.param)
    yield made
    made.bed.alive().end()


def test_all_four_as_asked_and_back(node: Node) -> None:
    before = node.bed.knobs()
    node.bed.set(chosen(*NAMES[1:]))
    node.ask((500, 1000), SAID)
    node.settle()
    v1 = node.bed.kernel.version(WEIGHT) is V1
    assert [node.limit(ref) for ref in (node.pod, *node.inner)] == [150_000, 50_000, 100_000]
    assert [node.value(ref, BURST) for ref in (node.pod, *node.inner)] == [150_000, 50_000, 100_000]
    assert [node.value(ref, WEIGHT) for ref in node.inner] == ([512, 1024] if v1 else [50, 100])
    assert node.value(node.pod, MEMORY_MAX) == 1500 * 2**20
    assert node.value(node.pod, IDLE) is True
    assert node.bed.once().outcomes == ()
    if not v1:
        assert node.value(node.inner[0], MEMORY_HIGH) == 250 * 2**20
    node.bed.set(chosen())
    node.settle()
    assert node.bed.knobs() == before
    assert node.bed.alive().ledger.entries == ()


def test_a_burst_that_an_earlier_run_left_does_not_keep_a_quota_from_falling(node: Node) -> None:
    """After a restart, while a policy has not decided yet, what was adopted stays; but the kernel
    refuses a quota below the burst that stands there."""
    before = node.bed.knobs()
    node.bed.set(chosen(*NAMES))
    node.ask((100, 5000), {"volcano.sh/enable-quota-burst": "true"})
    node.settle()
    node.bed.start()
    node.bed.set(chosen(*(name for name in NAMES if name != "quota_burst")))
    node.ask((5, 5000), {"volcano.sh/qos-level": "BE"})
    node.settle()
    assert node.limit(node.inner[0]) == 1000
    assert node.value(node.inner[0], BURST) == 0
    node.bed.set(chosen())
    node.settle()
    assert node.bed.knobs() == before


STEPS = st.lists(
    st.tuples(
        st.sets(st.sampled_from(NAMES)),
        st.lists(st.sampled_from((0, 5, 100, 700, 5000)), min_size=2, max_size=2),
        st.dictionaries(st.sampled_from(sorted(SAID)), st.booleans()),
        st.booleans(),
    ),
    min_size=1,
    max_size=6,
)


@few(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(st.sampled_from(CgroupVersion), STEPS)
def test_whatever_is_switched_and_asked_nothing_is_refused_and_all_comes_back(
    tmp_path_factory: pytest.TempPathFactory,
    version: CgroupVersion,
    steps: list[tuple[set[str], list[int], dict[str, bool], bool]],
) -> None:
    node = Node(tmp_path_factory.mktemp("ledger"), version)
    try:
        before = node.bed.knobs()
        for names, limits, words, restarted in steps:
            if restarted:
                node.bed.start()
            node.bed.set(chosen(*names))
            node.ask(tuple(limits), {key: SAID[key] for key, on in words.items() if on})
            node.settle()
            for ref in (node.pod, *node.inner):
                limit, burst = node.limit(ref), node.value(ref, BURST)
                if limit is UNLIMITED:
                    # On v1 a quota above may bind instead; the burst stays for when it does not.
                    assert burst == 0 or version is CgroupVersion.V1
                else:
                    assert burst <= limit
        node.bed.set(chosen())
        node.settle()
        assert node.bed.knobs() == before
        assert node.bed.alive().ledger.entries == ()
    finally:
        node.bed.alive().end()


LIFE = (
    (NAMES[1:], (500, 1000), SAID),
    (("elastic_resources", "quota_burst"), (700, 100), SAID),  # idle ends, the weight stays
    (("qos_level",), (700, 100), SAID),  # and the other way round
    ((), (700, 100), SAID),
)


def live(node: Node) -> None:
    for names, limits, said in LIFE:
        node.bed.set(chosen(*names))
        node.ask(limits, said)
        for _ in range(3):
            node.bed.once()


@pytest.mark.parametrize("version", [V1, V2], ids=lambda version: version.value)
def test_killed_at_any_point_all_comes_back(
    tmp_path: Path, version: CgroupVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    point, survived = 0, False
    while not survived:
        point += 1
        folder = tmp_path / str(point)
        folder.mkdir()
        node = Node(folder, version)
        before = node.bed.knobs()
        node.bed.alive()
        with monkeypatch.context() as patch:
            doomed_ledger(node.bed, patch)
            node.bed.fate.left = point
            survived = node.bed.survive(functools.partial(live, node))
        node.bed.fate.left = None
        if point % 2:  # either the next run goes on, or it only puts back
            live(node)
        assert node.bed.release() == 0
        assert node.bed.knobs() == before, f"killed at point {point}"
        assert node.bed.alive().ledger.entries == ()
        node.bed.alive().end()
    assert point > 60
