"""The worked example of a plug-in in a whole agent: found, loaded, asked, and acted on."""

import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from slackwater.agent.program import Agent
from slackwater.contract.crane.ensurance_set import EnsuranceObjects, join_ensurance, read_ensurance
from slackwater.model.decision import CommandKind, RuleState
from slackwater.model.ensurance_plugin import ENTRY_POINTS
from slackwater.model.gap import Gap
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Micros
from slackwater.observation.metrics.collector import MetricCollector
from slackwater.observation.metrics.tick_view import view_of
from slackwater.observation.objects.object_set import Objects
from slackwater.observation.plugins.plugin_host import PluginHost, PluginLimits
from slackwater.observation.survey import SnapshotInputs
from slackwater.policies.ensurance.watermark_settings import (
    WatermarkReliefSettings,
)
from slackwater.record.journal import TickRecord
from slackwater.settings.agent_document import Settings
from tests.unit.agent.test_program import Bench, at
from tests.unit.observation.plugins.installed import describe
from tests.unit.policies.ensurance import batch, seen

EXAMPLE = Path(__file__).parents[3] / "examples/ensurance-metric"
KIND, COST = "example.com/kind", "example.com/restart-cost"
PODS = (
    batch(1, labels={KIND: "batch", COST: "9"}),
    batch(2, labels={KIND: "batch", COST: "1"}),
    batch(3, labels={KIND: "batch"}),
    batch(4),
)


def example_objects(name: str) -> EnsuranceObjects:
    documents = yaml.safe_load_all((EXAMPLE / name).read_text())
    found = [read_ensurance(each["kind"], each, name) for each in documents]
    return join_ensurance(each for each in found if each is not None)


class PluginBench(Bench):
    """An agent whose snapshots have what its plug-ins say."""

    def __init__(self, host: PluginHost, *plugins: str) -> None:
        settings = WatermarkReliefSettings(plugins=plugins, evictions_per_tick=3)
        super().__init__(
            Objects(
                settings=Settings(policies={"watermark_relief": settings}),
                ensurance=example_objects("batch-cpu.yaml"),
            )
        )
        self._collector = MetricCollector((), host)
        dependencies = msgspec.structs.replace(self.agent._dependencies, plugins=host)
        self.agent = Agent(dependencies, self.lines.append)
        self.agent.start(at(0))

    def close_snapshot(self, tick: int, at: Micros, known: SnapshotInputs) -> NodeSnapshot | Gap:
        shown = seen(tick, *PODS, usages={1: 1500, 2: 700, 3: 400, 4: 2000})
        view = view_of(shown)
        metrics = self._collector.collect(at, known.needs.metrics, view)
        return msgspec.structs.replace(shown, tick=tick, at=at, metrics=metrics)

    def tick(self, second: float) -> TickRecord:
        done = self.agent.once(at(second))
        assert isinstance(done, TickRecord)
        return done


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PluginHost]:
    """With the example as pip would have installed it."""
    package = tomllib.loads((EXAMPLE / "plugin/pyproject.toml").read_text())["project"]
    describe(tmp_path, "batch_cpu_metric", package["entry-points"][ENTRY_POINTS])
    source = Path(__file__).parents[3] / "src"
    monkeypatch.setenv("PYTHONPATH", f"{EXAMPLE / 'plugin'}:{tmp_path}:{source}")
    made = PluginHost(limits=PluginLimits(280, 280))
    yield made
    made.close()


def test_the_pods_that_cost_least_to_restart_are_evicted(host: PluginHost) -> None:
    """2600m are used and 2000m allowed: 660m have to go, and the first pod's 700m are enough."""
    bench = PluginBench(host, "batch-cpu")
    pause = threading.Event()
    record = bench.tick(1)
    (report,) = (rule for told in record.story.told for rule in told.rules)
    assert report.held
    while report.state is not RuleState.TRIGGERED:
        pause.wait(0.05)
        record = bench.tick(2)
        (report,) = (rule for told in record.story.told for rule in told.rules)
    assert report.seen == 2600
    assert report.metric == "Plugin/batch-cpu:example.com/batch-cpu"
    commands = [each.target for each in record.story.commands if each.kind is CommandKind.EVICT]
    assert commands == ["default/pod-2"]


def test_one_that_is_not_installed_is_told_and_the_agent_goes_on(host: PluginHost) -> None:
    bench = PluginBench(host, "nobody")
    pause = threading.Event()
    while not bench.told("plug-ins"):
        bench.tick(1)
        pause.wait(0.05)
    assert bench.told("plug-ins")[-1].startswith(
        "nobody: no installed package has the entry point nobody of slackwater.ensurance_metrics"
    )
    record = bench.tick(2)
    (told,) = (each for each in record.story.told if each.policy == "watermark_relief")
    texts = [each.text for each in told.remarks]
    lacks = "no plug-in that is switched on measures example.com/batch-cpu; nobody: no installed"
    assert any(each.startswith(lacks) for each in texts)


def test_without_the_name_in_the_settings_nothing_is_loaded(host: PluginHost) -> None:
    bench = PluginBench(host)
    bench.tick(1)
    assert host.use(()) == ()
    assert bench.told("plug-ins") == []
