"""The last good objects on disk: saved as they change, loaded with their age."""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from slackwater.agent.dependencies import (
    CommandLineOverrides,
)
from slackwater.agent.objects_checkpoint import FILE, INTERVAL, OLDEST, ObjectsCheckpoint
from slackwater.agent.program import (
    Agent,
)
from slackwater.model.gap import Gap
from slackwater.model.problem import ConfigurationProblem
from slackwater.model.units import Micros, MilliCpu, Percent
from slackwater.observation.objects.cluster import ClusterObjects
from slackwater.observation.objects.cluster_kinds import SeenMap, SeenNode
from slackwater.observation.objects.folder import Folder
from slackwater.observation.objects.object_set import STAYS, Objects, SavedObjects
from slackwater.policies.best_effort_share import BestEffortShareSettings
from slackwater.policies.catalog import SETTINGS
from slackwater.record.journal import TickRecord
from slackwater.settings.agent_document import Settings
from tests.unit.agent.test_program import Bench, at
from tests.unit.observation.objects.feeds import (
    CONFIG,
    HERE,
    Cluster,
    broken,
    node,
    pod,
    throttling,
)

SHARE = BestEffortShareSettings(enabled=True, threshold=Percent(55))
EXAMPLES = Path(__file__).parents[3] / "examples"


class Disk:
    """A folder, and a time of day that a test moves."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now = folder, 1_900_000_000.0

    def checkpoint(self, name: str = HERE) -> ObjectsCheckpoint:
        return ObjectsCheckpoint(str(self.folder), name, SETTINGS, lambda: self.now)

    def save(self, objects: Objects) -> None:
        made = self.checkpoint()
        assert made.offer(objects, Micros(0), heard=True) == ""
        os.utime(self.folder / FILE, (self.now, self.now))

    def load(self) -> SavedObjects:
        found = self.checkpoint().load()
        assert isinstance(found, SavedObjects), found
        return found


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def settings(**policies: object) -> Settings:
    known = {**SETTINGS.defaults.policies, **policies}
    return Settings(policies=known, stated=frozenset({"bestEffortShare.threshold"}))


def objects(**more: object) -> Objects:
    made = Objects(
        pods=(pod("a"), pod("b")),
        nodes=(node(6000, zone="z"),),
        settings=settings(best_effort_share=SHARE),
        colocation=throttling(70).value,
    )
    return msgspec.structs.replace(made, **more)


def test_what_is_saved_is_what_is_loaded(disk: Disk) -> None:
    saved = objects()
    disk.save(msgspec.structs.replace(saved, warnings=("old",)))
    disk.now += 720
    assert disk.load() == SavedObjects(saved, Micros(720_000_000))


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir()))
def test_every_example_survives(disk: Disk, name: str) -> None:
    """Policy objects of every kind, pods and settings, as users write them."""
    found = Folder(str(EXAMPLES / name), "", "", SETTINGS).read()
    if isinstance(found, Gap):
        pytest.skip(found.reason)
    kept = msgspec.structs.replace(found, problems=(), warnings=())
    disk.save(found)
    assert disk.load().objects == kept


def test_nothing_saved_is_nothing(disk: Disk) -> None:
    assert disk.checkpoint().load() is None


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path: _put(path, b"{"), "cannot be used"),
        (lambda path: _put(path, b"\xff" * 99), "cannot be used"),
        (lambda path: _put(path, b"\x91" * 99_999), "cannot be used"),
        (lambda path: _edit(path, checkpoint=2), "another version's"),
        (lambda path: _edit(path, node="elsewhere"), "another node's"),
        (lambda path: path.parent.chmod(0o777), "may be written by others"),
        (lambda path: os.utime(path, (0, 0)), "old"),
    ],
)
def test_what_cannot_be_used_is_a_sentence(disk: Disk, spoil: object, said: str) -> None:
    disk.save(objects())
    spoil(disk.folder / FILE)  # type: ignore[operator]
    found = disk.checkpoint().load()
    assert isinstance(found, Gap)
    assert said in found.reason


def _edit(path: Path, **fields: object) -> None:
    decoded = msgspec.msgpack.decode(path.read_bytes(), type=dict[str, Any])
    _put(path, msgspec.msgpack.encode({**decoded, **fields}))


def _put(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    os.utime(path, (1_900_000_000, 1_900_000_000))


def test_a_time_of_day_that_went_back_is_no_age(disk: Disk) -> None:
    disk.save(objects())
    disk.now -= 3600
    assert disk.load().age == 0
    disk.now += 3600 + OLDEST // 1_000_000 + 1
    assert isinstance(disk.checkpoint().load(), Gap)


def test_a_policy_that_is_not_known_any_more_is_left_out(disk: Disk) -> None:
    disk.save(objects())
    path = disk.folder / FILE
    document = msgspec.msgpack.decode(path.read_bytes(), type=dict[str, Any])
    document["objects"]["settings"]["policies"]["of_another_version"] = {"enabled": True}
    _put(path, msgspec.msgpack.encode(document))
    assert disk.load().objects == objects()


def test_it_is_written_seldom(disk: Disk) -> None:
    """At once, then a minute after settings changed, five minutes after pods did; its time is kept
    up to date while the server is heard."""
    checkpoint, path = disk.checkpoint(), disk.folder / FILE
    checkpoint.offer(objects(), Micros(0), heard=True)
    first = path.read_bytes()
    fewer = objects(pods=(pod("a"),))
    other = objects(nodes=(node(7000),), pods=(pod("a"),))
    checkpoint.offer(fewer, Micros(INTERVAL), heard=True)
    assert path.read_bytes() == first, "only pods changed"
    checkpoint.offer(fewer, Micros(5 * INTERVAL), heard=True)
    second = path.read_bytes()
    assert second != first
    checkpoint.offer(other, Micros(5 * INTERVAL + 1), heard=True)
    assert path.read_bytes() == second, "too soon"
    checkpoint.offer(other, Micros(6 * INTERVAL), heard=True)
    assert path.read_bytes() != second
    disk.now += 1000
    checkpoint.offer(other, Micros(7 * INTERVAL), heard=True)
    assert path.stat().st_mtime < disk.now
    checkpoint.offer(other, Micros(11 * INTERVAL), heard=False)
    assert path.stat().st_mtime < disk.now, "nobody knows whether it is still so"
    checkpoint.offer(other, Micros(11 * INTERVAL), heard=True)
    assert path.stat().st_mtime == disk.now


def test_what_was_loaded_is_not_saved_as_new(disk: Disk) -> None:
    old = objects(saved_age=Micros(1))
    assert disk.checkpoint().offer(old, Micros(0), heard=True) == ""
    assert not (disk.folder / FILE).exists()


def test_a_disk_that_takes_nothing_is_told_and_harmless(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    checkpoint = Disk(tmp_path / "file").checkpoint()
    assert "Not a directory" in checkpoint.offer(objects(), Micros(0), heard=True)
    assert "Not a directory" in checkpoint.offer(objects(), Micros(1), heard=True)


# A start without the API server.


class Away(Cluster):
    """Informers that hear nothing; objects of an earlier run."""

    def __init__(self, saved: SavedObjects | None) -> None:
        super().__init__()
        self.objects = ClusterObjects(self.feeds, HERE, Micros(0), saved)

    def refuse(self) -> "Away":
        for name in self.feeds.__struct_fields__:
            self.hand(name).alter(problem="connection refused")
        return self


SAVED = SavedObjects(objects(), Micros(90 * 60 * 1_000_000))


def test_without_an_answer_what_was_saved_is_used_at_the_second_look() -> None:
    cluster = Away(SAVED)
    assert isinstance(cluster.objects.read(), Gap), "the server may answer within a moment"
    found = cluster.objects.read()
    assert isinstance(found, Objects)
    assert (found.pods, found.settings) == (SAVED.objects.pods, SAVED.objects.settings)
    [problem] = found.problems
    assert "what was known 1 h before the agent's start is used" in problem.sentence()
    assert cluster.objects.read() is found
    assert cluster.objects.freshness(Micros(5))["pods"].age == SAVED.age + 5


def test_a_server_that_is_known_to_be_away_is_not_waited_for() -> None:
    assert isinstance(Away(SAVED).refuse().objects.read(), Objects)
    assert isinstance(Away(None).refuse().objects.read(), Gap)


def test_what_is_heard_takes_its_place() -> None:
    cluster = Away(SAVED).refuse()
    cluster.objects.read()
    found = cluster.fill().objects.read()
    assert isinstance(found, Objects)
    assert (found.saved_age, found.settings, found.nodes) == (None, None, (node(),))
    assert cluster.objects.freshness(Micros(5))["pods"].age == 4


def test_of_a_node_that_is_gone_nothing_is_used() -> None:
    cluster = Away(SAVED)
    cluster.fill()
    cluster.hand("node").put({})
    cluster.objects.read()
    assert isinstance(cluster.objects.read(), Gap)


def test_settings_that_are_wrong_from_the_start_are_those_that_were_saved() -> None:
    """The API server is there: only they are old, not the pods."""
    cluster = Away(SAVED)
    cluster.fill()
    problem = ConfigurationProblem("ConfigMap ns/slackwater-agent: odd")
    cluster.hand("settings").put({"ns/slackwater-agent": SeenMap("uid", None, problem)})
    found = cluster.objects.read()
    assert isinstance(found, Objects)
    assert (found.settings, found.saved_age) == (SAVED.objects.settings, None)
    assert found.pods == tuple(cluster.hand("pods").view().items.values())
    assert [each.consequence for each in found.problems] == [STAYS]


def test_settings_that_were_never_good_are_waited_for() -> None:
    cluster = Away(SavedObjects(objects(colocation=None), SAVED.age))
    cluster.fill()
    cluster.hand("colocation").put({CONFIG: broken()})
    for _ in range(3):
        assert isinstance(cluster.objects.read(), Gap)


@pytest.mark.parametrize("saves", [True, False])
def test_an_amount_that_is_wrong_from_the_start(disk: Disk, saves: bool) -> None:
    """It can be read, and a policy refuses it: what was saved is in force, and stays saved."""
    labels = {"volcano.sh/oversubscription": "true"}
    labelled = {HERE: SeenNode(msgspec.structs.replace(node(), labels=labels), None)}
    cluster = Cluster().fill()
    cluster.hand("node").put(labelled)
    if saves:
        assert isinstance(_agent(disk, cluster.objects).agent.once(at(1)), TickRecord)
        os.utime(disk.folder / FILE, (disk.now, disk.now))
    wrong = Away(disk.load() if saves else None)
    wrong.fill().hand("node").put(labelled)
    wrong.hand("colocation").put({CONFIG: throttling(400)})
    bench = _agent(disk, wrong.objects)
    done = bench.agent.once(at(2))
    problems = [each.sentence() for each in bench.shared.last_round.problems]
    if not saves:
        assert isinstance(done, Gap)
        assert not disk.checkpoint().load()
        return
    assert isinstance(done, TickRecord)
    share = done.inputs.policies["best_effort_share"]
    assert isinstance(share, BestEffortShareSettings)
    assert share.threshold == Percent(80)
    [problem] = problems
    assert problem.endswith("; what was set before stays")
    assert disk.load().objects.colocation == throttling(80).value
    wrong.hand("colocation").put({CONFIG: throttling(50)})
    mended = bench.agent.once(at(3))
    assert isinstance(mended, TickRecord)
    assert mended.inputs.policies["best_effort_share"].threshold == Percent(50)
    found = wrong.objects.read()
    assert isinstance(found, Objects)
    assert found.recalled is None, "it is needed once"


def test_the_agent_controls_within_two_ticks(disk: Disk) -> None:
    """The whole way: a run that saves, a restart without the API server."""
    cluster = Cluster().fill()
    ours = SeenMap("uid", settings(best_effort_share=SHARE))
    cluster.hand("settings").put({"ns/slackwater-agent": ours})
    first = _agent(disk, cluster.objects)
    assert isinstance(first.agent.once(at(1)), TickRecord)
    assert (disk.folder / FILE).exists()
    os.utime(disk.folder / FILE, (disk.now - 60, disk.now - 60))
    again = _agent(disk, Away(disk.load()).objects)
    done = [again.agent.once(at(second)) for second in (1, 2)]
    assert isinstance(done[1], TickRecord)
    assert "best_effort_share" in done[1].inputs.policies
    assert again.known[-1].allocatable == MilliCpu(4000), "the Node's, not the machine's"
    assert again.applied
    [problem] = again.shared.last_round.problems
    assert "1 min before the agent's start" in problem.sentence()


def _agent(disk: Disk, source: ClusterObjects) -> Bench:
    bench = Bench(overrides=CommandLineOverrides(node=HERE))
    dependencies = msgspec.structs.replace(
        bench.agent._dependencies, source=source, checkpoint=disk.checkpoint(), origin="cluster"
    )
    bench.agent = Agent(dependencies, bench.lines.append, CommandLineOverrides(node=HERE))
    assert bench.agent.start_waiting(at(0)) == ()
    return bench
