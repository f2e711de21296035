"""The agent's loop in this process, on a bed of real cgroups: one round for each call.

Owns a folder of objects, the agent's parts as the wiring makes them, and what was told.
"""

import json
import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from slackwater.agent.dependencies import (
    AgentDependencies,
)
from slackwater.agent.program import (
    Agent,
)
from slackwater.agent.shared_state import SharedState
from slackwater.execution.commands import CommandQueue, NobodyCarriesOut
from slackwater.execution.executor import Executor
from slackwater.execution.unit_writer import UnitWriter
from slackwater.model.cgroup import CgroupMounts
from slackwater.model.gap import Gap
from slackwater.model.plan import Outcome, Result
from slackwater.model.units import Micros, MilliCpu
from slackwater.observation.cgroups.tree import CgroupTree, Depth
from slackwater.observation.cpu_inventory import CpuInventory
from slackwater.observation.host import NodeUsageMeter, Roots
from slackwater.observation.metrics.collector import MetricCollector, node_families
from slackwater.observation.objects.folder import Folder
from slackwater.observation.rates import SHORTEST
from slackwater.observation.survey import Surveyor
from slackwater.record.journal import Journal, JournalEntry, TickRecord
from slackwater.record.metrics import TickCounters
from tests.kernel.hand import clock, executor_of, opened, until

#: What the agent goes by.
NODE = "this-node"
BATCH_CPU, BATCH_MEMORY = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"
LEVEL, BURST = "volcano.sh/qos-level", "volcano.sh/enable-quota-burst"
BURST_TIME, RATIOS = "volcano.sh/quota-burst-time", "volcano.sh/colocation-config"


class Box(msgspec.Struct, frozen=True):
    """One container: its id, the list of the spec that it stands in, and its resources."""

    id: str
    requests: Mapping[str, str] = {}
    limits: Mapping[str, str] = {}
    listed: str = "containers"
    always: bool = False


def pod_object(
    uid: str, boxes: Iterable[Box], annotations: Mapping[str, str] | None = None, name: str = "job"
) -> dict[str, Any]:
    """A Pod whose uid and containers are those of the cgroups."""
    spec: dict[str, Any] = {"containers": []}
    status: dict[str, Any] = {"phase": "Running"}
    for number, box in enumerate(boxes):
        resources = {"requests": dict(box.requests), "limits": dict(box.limits)}
        made = {"name": f"c{number}", "resources": resources}
        spec.setdefault(box.listed, []).append(
            made | ({"restartPolicy": "Always"} if box.always else {})
        )
        statuses = f"{box.listed.removesuffix('s')}Statuses"
        status.setdefault(statuses, []).append(
            {"name": f"c{number}", "containerID": f"containerd://{box.id}"}
        )
    metadata = {"name": name, "uid": uid, "annotations": dict(annotations or {})}
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def cpu_inventory(folder: Path) -> CpuInventory:
    """The machine's CPUs with a kubelet of the test's own; this machine's may be anybody's."""
    set_cpu_manager(folder, "none")
    (folder / "proc").mkdir()
    return CpuInventory(Roots(proc=str(folder / "proc"), host=str(folder / "host")))


def set_cpu_manager(folder: Path, policy: str) -> None:
    """What that kubelet's CPU manager does, by its state file, which it replaces as a whole."""
    file = folder / "host/var/lib/kubelet/cpu_manager_state"
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name("fresh")
    fresh.write_text(json.dumps({"policyName": policy, "defaultCpuSet": "", "checksum": 1}))
    fresh.rename(file)


class InProcess:
    """An agent whose rounds are called by hand."""

    def __init__(
        self,
        mounts: CgroupMounts,
        kubepods: str,
        folder: Path,
        units: UnitWriter | None = None,
        cpus: CpuInventory | None = None,
    ) -> None:
        self._node = folder / "node"
        self._node.mkdir()
        self.ledger = opened(str(folder / "state"))
        self.actuator: Executor = executor_of(mounts, self.ledger, units)
        self.snapshot_reader = Surveyor(
            CgroupTree(mounts, kubepods, Depth.TIERS),
            NodeUsageMeter(mounts, Roots()),
            MetricCollector(node_families(Roots(), mounts)),
            cpus=cpus,
        )
        #: Its thread is not started: what is due is carried out after each round.
        chance = random.Random(1)  # noqa: S311
        self.commands = CommandQueue(NobodyCarriesOut(), clock=clock, jitter=chance)
        cpu = mounts.identity()
        version = cpu if isinstance(cpu, Gap) else cpu.version
        self.shared = SharedState(Journal(60), TickCounters(), lambda: None, version)
        self.lines: list[JournalEntry] = []
        source = Folder(str(self._node), NODE)
        self.dependencies = AgentDependencies(
            source,
            self.snapshot_reader,
            self.actuator,
            self.shared,
            MilliCpu(2000),
            clock,
            commands=self.commands,
            start_notes=self.actuator,
        )
        self.agent = Agent(self.dependencies, self.lines.append)
        self._round = 0
        self._looked = Micros(clock() - SHORTEST)

    def put(self, name: str, *documents: dict[str, Any]) -> None:
        """A file of the folder; without documents it goes."""
        self._round += 1
        for old in self._node.glob(f"{name}-*.json"):
            old.unlink()
        if documents:
            items = {"kind": "List", "items": list(documents)}
            (self._node / f"{name}-{self._round}.json").write_text(json.dumps(items))

    def settings(self, **sections: dict[str, Any]) -> None:
        """Which policies are on, by the sections of the settings file."""
        head = {"apiVersion": "slackwater.io/v1", "kind": "AgentSettings"}
        spec = {name: {"enabled": True, **section} for name, section in sections.items()}
        self.put("settings", {**head, "spec": spec})

    def once(self) -> TickRecord:
        """As far from the one before as a rate needs: an agent never looks sooner."""
        until(lambda: clock() - self._looked >= SHORTEST, pause=0.005)
        self._looked = clock()
        record = self.agent.once(self._looked)
        assert isinstance(record, TickRecord), record
        self.commands.run_due()
        return record

    def rounds(self, number: int) -> list[TickRecord]:
        return [self.once() for _ in range(number)]

    def settle(self) -> list[TickRecord]:
        """Until a round has nothing to do; nothing is refused and nobody else is seen."""
        records: list[TickRecord] = []
        while not records or records[-1].outcomes:
            records.append(self.once())
            assert len(records) < 8, [outcome_text(o) for o in records[-1].outcomes]
        for record in records:
            refused = [o for o in record.outcomes if o.result not in _FINE]
            assert [outcome_text(o) for o in refused] == []
            assert record.story.notes == ()
        return records

    def told(self, what: str) -> list[str]:
        return [line.because for line in self.lines if line.what.startswith(what)]

    def close(self) -> None:
        self.agent.close()
        self.ledger.close()


_FINE = (Result.APPLIED, Result.UNCHANGED, Result.VANISHED)


def outcome_text(outcome: Outcome) -> str:
    change = outcome.change
    return (
        f"{change.knob.name} of {change.ref.path} {change.old} -> {change.new}: "
        f"{outcome.result.value} {outcome.detail}"
    )
