"""One process of the agent on a simulated node: built as wiring builds it on a real one.

Owns the build: real agent, executor and ledger over the fake kernel. A kill is `end`: what the
process knew is gone, what it noted is in the ledger's folder.
"""

from typing import TYPE_CHECKING, cast

import msgspec

from slackwater.agent.program import Agent, Orders, Parts
from slackwater.agent.shared_state import SharedState
from slackwater.agent.voice import Tell
from slackwater.contract.kubernetes_pod import Phase, Pod
from slackwater.contract.pod_resources import Container, Limits, PodResources, Requests
from slackwater.execution.executor import Executor
from slackwater.execution.ledger import Ledger
from slackwater.model.units import Micros, MilliCpu
from slackwater.observation.objects.object_set import Objects
from slackwater.record.journal import Journal
from slackwater.record.metrics import Tally
from slackwater.simulation.node import SimulatedNode
from slackwater.simulation.scenario import ScenarioPod
from slackwater.simulation.sight import KernelSight

if TYPE_CHECKING:
    from slackwater.execution.cgroup_writer import CgroupWriter

#: Ticks that a simulated agent keeps: nobody asks it for more than the last.
_KEPT = 1


class ScenarioSource:
    """The objects of this moment; the same object again where nothing changed."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects

    def read(self) -> Objects:
        return self.objects

    def set_pods(self, pods: tuple[ScenarioPod, ...]) -> None:
        listed = tuple(_object(pod) for pod in pods)
        self.objects = msgspec.structs.replace(self.objects, pods=listed)


class Process(msgspec.Struct, frozen=True):
    agent: Agent
    sight: KernelSight
    hands: Executor
    ledger: Ledger

    def end(self) -> None:
        """As the kernel ends a process: its descriptors are closed, and with them its lock."""
        self.ledger.close()


def start_process(
    node: SimulatedNode,
    source: ScenarioSource,
    ledger: Ledger,
    tell: Tell,
    orders: Orders = Orders(),  # noqa: B008 - frozen
) -> Process:
    """`agent.start` is still to come: it says what is wrong with the settings."""
    kernel = node.kernel

    def clock() -> Micros:
        return kernel.now

    sight = KernelSight(kernel, node.kubepods)
    # The fake kernel has the writer's surface, not its type.
    hands = Executor(ledger, cast("CgroupWriter", kernel), None, clock)
    parts = Parts(
        source=source,
        sight=sight,
        hands=hands,
        board=SharedState(Journal(_KEPT), Tally(), _nobody_waits),
        machine_cpu=MilliCpu(node.cpus * 1000),
        clock=clock,
    )
    return Process(Agent(parts, tell, orders), sight, hands, ledger)


def _nobody_waits() -> None:
    """A simulation has one thread."""


def _object(pod: ScenarioPod) -> Pod:
    """The pod as an API server would show it."""
    main = Container("main", requests=Requests(pod.request), limits=Limits(pod.limit))
    return Pod(
        uid=pod.name,
        cgroup_uid=pod.name,
        name=pod.name,
        namespace="default",
        labels={},
        annotations={},
        terminating=False,
        node_name="",
        priority=0,
        phase=Phase.RUNNING,
        tier=pod.tier,
        resources=PodResources((main,)),
    )
