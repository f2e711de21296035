"""The API server of a simulated node: what becomes of commands, whoever asked for them."""

from slackwater.contract.node_interference import NO_INTERFERENCE, NodeInterference
from slackwater.model.cgroup import Tier
from slackwater.model.decision import Because, Command, CommandKind
from slackwater.model.gap import Gap
from slackwater.model.plan import CommandState
from slackwater.model.units import Micros, MilliCpu
from slackwater.model.workload import Workload
from slackwater.simulation.demand import SECOND, Steady
from slackwater.simulation.scenario import ScenarioPod
from slackwater.simulation.simulated_api_server import SimulatedApiServer, SimulatedCommands

BECAUSE = Because("cpu_total_usage", "6500", "6000")
POD = ScenarioPod("batch", Tier.BESTEFFORT, Steady(MilliCpu(1)), grace=Micros(7 * SECOND))
WORKLOAD = Workload("batch", "batch", "default", Tier.BESTEFFORT, Gap("none"))
TAINT = Command(
    "taint/x", CommandKind.TAINT, "interference.crane.io", BECAUSE, "p", value="PreferNoSchedule"
)


class Node:
    """One pod, a server, and the queue of the agent that runs now."""

    def __init__(self) -> None:
        self.now = Micros(0)
        self.pods = {"batch": POD}
        self.server = SimulatedApiServer(self.pods.get, lambda: self.now)
        self.queue = SimulatedCommands(self.server, lambda: self.now)

    def ask(self, *commands: Command) -> list[tuple[str, CommandState, bool]]:
        pods = (WORKLOAD,) if self.pods else ()
        self.queue.offer(commands, self.now, pods)
        return [(o.command.title(), o.state, o.undone) for o in self.queue.outcomes()]

    def restart(self) -> None:
        self.queue = SimulatedCommands(self.server, lambda: self.now)


def eviction(grace: int | None = None) -> Command:
    return Command(
        "batch", CommandKind.EVICT, "default/batch", BECAUSE, "p", "batch", grace_seconds=grace
    )


def test_a_taint_comes_and_goes() -> None:
    node = Node()
    assert node.ask(TAINT) == [("taint interference.crane.io", CommandState.DONE, False)]
    assert node.server.interference == NodeInterference("PreferNoSchedule")
    assert node.ask(TAINT) == []
    assert node.ask() == [("taint interference.crane.io", CommandState.DONE, True)]
    assert node.server.interference == NO_INTERFERENCE


def test_a_taint_of_an_earlier_run_goes_when_nobody_asks_for_it() -> None:
    node = Node()
    node.ask(TAINT)
    node.restart()
    assert node.server.interference.effect == "PreferNoSchedule"
    node.ask()
    assert node.server.interference == NO_INTERFERENCE


def test_a_release_removes_the_taint() -> None:
    node = Node()
    node.ask(TAINT)
    node.queue.release()
    assert node.server.interference == NO_INTERFERENCE


def test_an_evicted_pod_ends_after_the_grace() -> None:
    node = Node()
    assert node.ask(eviction(3)) == [("evict default/batch", CommandState.DONE, False)]
    assert node.server.ending == {"batch": 3 * SECOND}
    (progress,) = node.queue.progress()
    assert progress.counts_as_relief()


def test_without_a_stated_grace_the_pods_own_counts() -> None:
    node = Node()
    node.ask(eviction())
    assert node.server.ending == {"batch": 7 * SECOND}


def test_another_agent_does_not_begin_anew() -> None:
    node = Node()
    node.ask(eviction(3))
    node.restart()
    node.now = Micros(2 * SECOND)
    node.ask(eviction(30))
    assert node.server.ending == {"batch": 3 * SECOND}


def test_a_pod_that_is_gone_is_done() -> None:
    node = Node()
    node.ask(eviction(0))
    node.pods.clear()
    assert node.ask() == [("evict default/batch", CommandState.DONE, False)]
    assert node.queue.progress() == ()
