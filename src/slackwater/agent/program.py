"""The agent's loop: look, tick, carry out, tell. Clocks and files come in as arguments.

Owns the order of one round and what lives between rounds. Decides nothing: that is the tick's.
"""

from collections.abc import Callable

import msgspec

from slackwater.agent.tick import TickMemory, tick
from slackwater.agent.wishes import Wishes, wishes_of
from slackwater.execution.executor import Executor
from slackwater.model.cgroup import CgroupRef
from slackwater.model.decision import Grant
from slackwater.model.gap import Gap
from slackwater.model.knob import Knob, KnobValue
from slackwater.model.plan import Outcome, Result
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Micros, MilliCpu
from slackwater.observation.folder import Folder, Objects
from slackwater.observation.survey import Known, Surveyor
from slackwater.policies import best_effort_share
from slackwater.policies.policy import Policy
from slackwater.record.journal import Entry, Journal, TickRecord, entry_of, told
from slackwater.settings.document import DEFAULTS

POLICIES: tuple[Policy, ...] = (best_effort_share.POLICY,)
Tell = Callable[[Entry], None]


class Parts(msgspec.Struct, frozen=True):
    """What the wiring builds: the edges, and the machine's own size where no Node tells it."""

    folder: Folder
    surveyor: Surveyor
    executor: Executor
    journal: Journal
    machine_cpu: MilliCpu | Gap


class Agent:
    """One node's agent between rounds."""

    def __init__(self, parts: Parts, tell: Tell) -> None:
        self._parts = parts
        self._tell = tell
        self._round = 0
        self._memory = TickMemory()
        self._wishes = Wishes()
        self._objects = Objects()
        self._told: dict[str, str] = {}
        self._due: Micros | None = None

    def start(self, at: Micros) -> tuple[str, ...]:
        """What an earlier run left is ours again. Problems with the settings end a start: there
        is nothing good yet to go on with."""
        found = self._parts.folder.read()
        if isinstance(found, Gap):
            return (found.reason,)
        problems = wishes_of(found, self._wishes).problems
        if not problems:
            adoption = self._parts.executor.adopt()
            for adopted in adoption.live:
                what = f"{adopted.entry.knob} of {adopted.entry.ref.path}"
                self._tell(Entry(0, at, what, because=f"adopted: {adopted.standing.value}"))
        return problems

    def pause(self, at: Micros) -> float:
        """Seconds until the next round: rounds keep to the period, whatever one of them took."""
        if self._due is None:
            self._due = at
        late = at - self._due
        period = (self._objects.settings or DEFAULTS).agent.period
        self._due = Micros(at if late > period else self._due)
        wait = max(self._due - at, 0) / 1_000_000
        self._due = Micros(self._due + period)
        return wait

    def release(self, at: Micros) -> bool:
        """Everything back; whether all of it is."""
        outcomes = self._parts.executor.release()
        for outcome in outcomes:
            self._tell(told(outcome, self._round, at, "released at exit"))
        return not any(o.result in (Result.REFUSED, Result.UNSUPPORTED) for o in outcomes)

    def close(self) -> None:
        self._parts.surveyor.close()

    def once(self, at: Micros) -> TickRecord | Gap:
        """One round. A Gap where the tree is gone: nothing is written then."""
        self._round += 1
        self._look(at)
        snapshot = self._parts.surveyor.close_snapshot(self._round, at, self._known())
        if isinstance(snapshot, Gap):
            self._tell_once("survey", snapshot.reason, at)
            return snapshot
        self._tell_once("survey", "", at)
        return self._act(snapshot)

    def _look(self, at: Micros) -> None:
        """The folder's objects, and what they wish; what cannot be read stays as it was."""
        found = self._parts.folder.read()
        if isinstance(found, Gap):
            self._tell_once("folder", found.reason, at)
            return
        self._objects = found
        self._wishes = wishes_of(found, self._wishes)
        self._tell_once("folder", "; ".join(self._wishes.problems), at)

    def _known(self) -> Known:
        node = self._objects.node
        stated = node.allocatable_cpu if node else self._parts.machine_cpu
        return Known(
            allocatable=self._parts.machine_cpu if isinstance(stated, Gap) else stated,
            pods=self._objects.pods,
            held=self._parts.executor.held(),
        )

    def _act(self, snapshot: NodeSnapshot) -> TickRecord:
        agent = (self._objects.settings or DEFAULTS).agent
        done = tick(snapshot, self._memory, POLICIES, self._wishes.policies, agent, self._settle)
        self._memory = done.memory
        planned = done.planned
        outcomes = self._parts.executor.apply(planned.changes)
        if planned.releases:
            gone = {(held.ref.id, held.knob) for held in planned.releases}
            outcomes += self._parts.executor.let_go(gone)
        entries = self._entries(snapshot, outcomes, done.story.grants)
        entries += [
            Entry(snapshot.tick, snapshot.at, f"{n.knob} of {n.target.path}", because=n.text)
            for n in planned.notes
        ]
        for entry in entries:
            self._tell_effect(entry)
        for line in done.story.told:
            why = f"{line.decision}: {line.reason}" if line.decision != "acted" else ""
            self._tell_once(line.policy, why, snapshot.at)
        record = TickRecord(snapshot, done.story.grants, tuple(entries))
        self._parts.journal.keep(record)
        return record

    def _entries(
        self, snapshot: NodeSnapshot, outcomes: list[Outcome], grants: tuple[Grant, ...]
    ) -> list[Entry]:
        found = (entry_of(outcome, snapshot, grants) for outcome in outcomes)
        return [entry for entry in found if entry is not None]

    def _settle(self, ref: CgroupRef, knob: Knob, value: KnobValue) -> KnobValue:
        return self._parts.executor.settled(ref, knob, value)

    def _tell_effect(self, entry: Entry) -> None:
        """An effect is told each time; one that fails again for the same reason is not."""
        failure = "" if entry.result in ("", Result.APPLIED.value) else entry.result
        if failure and self._told.get(entry.what) == failure:
            return
        self._told[entry.what] = failure
        self._tell(entry)

    def _tell_once(self, about: str, text: str, at: Micros) -> None:
        """A state is told when it changes, its end too; not at every tick."""
        if self._told.get(about, "") == text:
            return
        self._told[about] = text
        self._tell(Entry(self._round, at, about, because=text or "all is well again"))
