"""Hours of an agent's life in seconds: whatever comes and goes, it holds no more at the end.

`benchmarks/soak.py` does the same for days, and weighs the process.
"""

from collections.abc import Iterator

import pytest

from slackwater.agent.program import Agent
from slackwater.contract.resources import NODES
from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.record.journal import TickRecord
from tests.unit.soak.footprint import Footprint, take_footprint
from tests.unit.soak.soak_objects import CYCLE, NODE
from tests.unit.soak.virtual_node import VirtualNode, memory_folder

#: Only a hang reaches the time.
pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
#: The agent looks every so many seconds here; so many series of events fill up in the first cycle.
PERIOD, SERIES = 10, 32
#: A ring of 60 ticks is full after half a cycle; what a policy learns of a day has its size later.
WARM_UP, MEASURED = 3, 5
#: Blocks of memory: one for four pods that came and went. What has a bound of its own (events that
#: wait, remembered series) still fills up, by half of that.
LEAK = CYCLE * MEASURED // 4
#: Twice its live lines and 200 more, each of at most this many bytes.
LINE = 400


@pytest.fixture
def soaked(monkeypatch: pytest.MonkeyPatch) -> Iterator[VirtualNode]:
    with memory_folder() as folder:
        made = VirtualNode(folder, monkeypatch, PERIOD, SERIES)
        yield made
        made.end()


def grown(node: VirtualNode, cycles: int) -> tuple[Footprint, Footprint]:
    before = take_footprint(node)
    node.run(CYCLE * cycles)
    return before, take_footprint(node)


def test_it_holds_no_more_after_hours(soaked: VirtualNode) -> None:
    soaked.run(CYCLE * WARM_UP)
    before, after = grown(soaked, MEASURED)
    assert after.descriptors == before.descriptors
    assert after.blocks - before.blocks < LEAK
    assert after.journal_ticks == before.journal_ticks
    assert after.journal_knobs <= before.ledger_entries + after.ledger_entries
    for each in (before, after):
        assert each.ledger_bytes <= LINE * (2 * each.ledger_entries + 200)
    assert soaked.pods == CYCLE * (WARM_UP + MEASURED)
    soaked.restart()
    soaked.run(PERIOD)
    assert take_footprint(soaked).descriptors == before.descriptors
    soaked.end()
    assert soaked.release() == 0
    assert soaked.knobs() == soaked.baseline
    soaked.built = soaked._build()


def test_it_lived_through_what_it_should(soaked: VirtualNode) -> None:
    """Otherwise nothing that comes and goes is soaked."""
    told: set[str] = set()
    for _ in range(CYCLE // PERIOD):
        soaked.run(PERIOD)
        told |= {f"{line.what.split(' ')[0]} {line.result}".strip() for line in soaked.lines}
    assert told >= {
        *(f"{knob} applied" for knob in ("quota", "burst", "weight", "idle", "cpus")),
        *(f"{knob} applied" for knob in ("memory-max", "memory-high")),
        "evict applied",
    }, told
    node = soaked.api.find(NODES, NODE)
    assert node is not None
    assert "slackwater.io/report" in node["metadata"]["annotations"]


def test_a_leak_is_noticed(soaked: VirtualNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what the smallest one would be: a number for each pod that came."""
    kept: list[object] = []
    once = Agent.once

    def leaking(agent: Agent, at: Micros, *, early: bool = False) -> TickRecord | Gap:
        done = once(agent, at, early=early)
        kept.extend(object() for _ in range(PERIOD))
        return done

    soaked.run(CYCLE)
    monkeypatch.setattr(Agent, "once", leaking)
    before, after = grown(soaked, 1)
    assert after.blocks - before.blocks >= CYCLE // 4
