"""One node's agent: reads objects, observes the node, runs the tick and carries out its plan.

Keeps what lives between rounds. Decisions are made by agent.tick; clocks and files are arguments.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from slackwater.agent.effective_settings import Dialect, EffectiveSettings, resolve_settings
from slackwater.agent.shared_state import ReleaseDone, SharedState
from slackwater.agent.tick import TickCache, TickMemory, TickResult, needs_of_policies, tick
from slackwater.contract.crane.metrics import needs_of_metrics
from slackwater.contract.ensurance_plugin import PluginState
from slackwater.contract.kubernetes import Node
from slackwater.contract.schema import ForeignSection
from slackwater.contract.volcano.node import EVERY_FEATURE, sections_for_node
from slackwater.model.decision import Command, PolicyAction, RuleState, TickReport
from slackwater.model.gap import Gap
from slackwater.model.knob import KnobKey
from slackwater.model.needs import EVERYTHING, Needs, merge_needs
from slackwater.model.plan import Adoption, Change, CommandOutcome, CommandProgress, Outcome, Result
from slackwater.model.problem import ConfigurationProblem
from slackwater.model.snapshot import Held, NodeSnapshot, WritePrecision
from slackwater.model.units import Micros, MilliCpu
from slackwater.model.workload import Workload
from slackwater.observation.objects.object_set import MissingObjects, Objects, own_node
from slackwater.observation.survey import SnapshotInputs, SnapshotReader
from slackwater.policies import watermark_relief
from slackwater.policies.catalog import POLICIES, schema_of
from slackwater.policies.policy import Policy
from slackwater.record.agent_view import RoundState
from slackwater.record.journal import (
    JournalEntry,
    TickInputs,
    TickRecord,
    command_entry,
    make_entries,
    outcome_entry,
    plan_command_entries,
)
from slackwater.runtime.change_log import ChangeLog, EntrySink
from slackwater.settings.agent_settings import AgentSettings, Reading

RELEASED_BY_HAND = "released manually; restart the agent to resume"


class ObjectSource(Protocol):
    """Where objects come from: a folder, a cluster, a scenario."""

    def read(self) -> Objects | Gap: ...


class Actuator(Protocol):
    """Carries out changes: the executor, or a dry run."""

    def apply(self, changes: Iterable[Change]) -> list[Outcome]: ...

    def adopt(self) -> Adoption: ...

    def release(self) -> list[Outcome]: ...

    def let_go(self, knobs: Collection[tuple[int, str]]) -> list[Outcome]: ...

    def held(self) -> tuple[Held, ...]: ...

    def off(self) -> frozenset[KnobKey]: ...

    def precision(self) -> WritePrecision: ...


class CommandDispatch(Protocol):
    """Carries out commands off the tick: execution.commands.CommandQueue, or a simulation."""

    def offer(
        self,
        commands: Sequence[Command],
        at: Micros,
        workloads: Iterable[Workload] | None = None,
        *,
        decided: bool = True,
    ) -> None:
        """Everything that policies ask for now, after each tick. Never waits."""
        ...

    def progress(self) -> tuple[CommandProgress, ...]:
        """What was taken up and is not finished."""
        ...

    def outcomes(self) -> tuple[CommandOutcome, ...]:
        """What changed since the last call."""
        ...

    def withdraw(self) -> None:
        """No eviction is needed any more, also none that was refused and waits."""
        ...

    def release(self) -> None:
        """Nothing is wanted any more."""
        ...


class Plugins(Protocol):
    """Plug-ins in their processes: observation.plugins.plugin_host."""

    def use(self, names: tuple[str, ...]) -> tuple[PluginState, ...]:
        """Those that are switched on; the same object while nothing changes."""
        ...

    def offer(self, snapshot: NodeSnapshot) -> None:
        """What they may be asked about. Never waits."""
        ...

    def close(self) -> None: ...


class AgentDependencies(msgspec.Struct, frozen=True):
    """What an agent works with. `machine_cpu` is the machine's size, for nodes without a Node
    object."""

    source: ObjectSource
    snapshot_reader: SnapshotReader
    actuator: Actuator
    shared: SharedState
    machine_cpu: MilliCpu | Gap
    clock: Callable[[], Micros]
    #: What problems with the objects are logged under.
    origin: str = "folder"
    policies: tuple[Policy, ...] = POLICIES
    #: None in a dry run: commands are told only.
    commands: CommandDispatch | None = None
    plugins: Plugins | None = None


class CommandLineOverrides(msgspec.Struct, frozen=True):
    """What flags and variables set over the configuration. `node` names this node's Node object;
    without it `host`, the machine's name, does. `features` are those of Volcano's that this agent
    supports."""

    node: str = ""
    host: str = ""
    settings: Mapping[str, str] = {}
    features: tuple[str, ...] = EVERY_FEATURE


NO_OVERRIDES = CommandLineOverrides()


def volcano_dialect(features: tuple[str, ...] = EVERY_FEATURE) -> Dialect:
    """Volcano's ColocationConfig as settings, as far as this agent supports its features."""

    def dialect(objects: Objects, labels: Mapping[str, str]) -> Mapping[str, ForeignSection]:
        return sections_for_node(objects.colocation, labels, features)

    return dialect


class Agent:
    """One node's agent between rounds."""

    def __init__(
        self,
        dependencies: AgentDependencies,
        write: EntrySink,
        overrides: CommandLineOverrides = NO_OVERRIDES,
    ) -> None:
        self._dependencies = dependencies
        self._schema = schema_of(dependencies.policies)
        self._overrides = overrides
        self._log = ChangeLog(write)
        self._round = 0
        self._memory = TickMemory()
        self._cache = TickCache()
        self._effective = EffectiveSettings()
        self._objects = Objects()
        self._plugins: tuple[PluginState, ...] = ()
        self._due: Micros | None = None
        self._paused = ""
        self._unread_objects: Gap | None = None
        self._lost_since: Micros | None = None
        self._written_groups: frozenset[int] = frozenset()

    @property
    def settings(self) -> AgentSettings:
        """In force now."""
        return self._effective.agent

    def start(self, at: Micros) -> tuple[str, ...]:
        """Adopts what an earlier run left. Returns the problems with the settings that prevent a
        start: there are no good settings yet to go on with."""
        found = self._dependencies.source.read()
        if isinstance(found, Gap):
            return (found.reason,)
        problems = self._resolve(found).problems
        if not problems:
            self._adopt(at)
        return tuple(each.sentence() for each in problems)

    def start_waiting(self, at: Micros) -> tuple[str, ...]:
        """The same if objects come later, from a cluster: only the command line can be wrong.
        Until they come nothing is changed."""
        problems = self._resolve(Objects()).problems
        if not problems:
            self._adopt(at)
        return tuple(each.sentence() for each in problems)

    def _adopt(self, at: Micros) -> None:
        for adopted in self._dependencies.actuator.adopt().live:
            what = f"{adopted.entry.knob} of {adopted.entry.ref.path}"
            because = f"adopted: {adopted.ownership.value}"
            self._log.effect(JournalEntry(0, at, what, because=because))

    def pause(self, at: Micros) -> float:
        """Seconds until the next round: rounds keep to the period, whatever one of them took."""
        if self._due is None:
            self._due = at
        late = at - self._due
        period = self.settings.period
        self._due = Micros(at if late > period else self._due)
        return max(self._due - at, 0) / 1_000_000

    def release(self, at: Micros, because: str) -> ReleaseDone:
        """Restores every value; the Node's taint and condition go off the loop."""
        if self._dependencies.commands is not None:
            self._dependencies.commands.release()
        outcomes = self._dependencies.actuator.release()
        self._dependencies.shared.tally.add_outcomes(outcomes)
        entries = tuple(outcome_entry(outcome, self._round, at, because) for outcome in outcomes)
        for entry in entries:
            self._log.effect(entry)
        left = sum(o.result in (Result.REFUSED, Result.UNSUPPORTED) for o in outcomes)
        return ReleaseDone(entries, left)

    def close(self) -> None:
        """After the commands were stopped: the last of them are logged."""
        commands = self._dependencies.commands
        for outcome in commands.outcomes() if commands else ():
            self._log.effect(command_entry(outcome, self._round))
        self._dependencies.snapshot_reader.close()
        if self._dependencies.plugins is not None:
            self._dependencies.plugins.close()

    def once(self, at: Micros, *, early: bool = False) -> TickRecord | Gap:
        """One round. A Gap if objects or the tree are missing: nothing is written then."""
        self._round += 1
        self._log.round = self._round
        if not early:
            self._due = Micros((at if self._due is None else self._due) + self.settings.period)
        if self._dependencies.shared.is_release_requested():
            self._paused = RELEASED_BY_HAND
            self._memory = TickMemory()
            self._dependencies.shared.finish_release(self.release(at, "released manually"))
        self._read_objects(at)
        waits = self._missing_objects()
        done = waits or self._observe_and_act(at, early=early)
        if waits or isinstance(done, TickRecord):
            self._lost_since = None
        elif self._lost_since is None:
            self._lost_since = at
        self._publish_round(done)
        return done

    def _missing_objects(self) -> Gap | None:
        """Why there are no good settings yet; None if there are. Until then nothing is changed."""
        if self._effective.is_known():
            return None
        reasons = [each.sentence() for each in self._effective.problems]
        at_fault = list(self._effective.problems)
        if self._unread_objects is not None:
            reasons.insert(0, self._unread_objects.reason)
            if isinstance(self._unread_objects, MissingObjects):
                at_fault += self._unread_objects.problems
        because = tuple(each for each in at_fault if each.about)
        reason = "; ".join(reasons) or "no objects"
        return MissingObjects(reason, because) if because else Gap(reason)

    def _observe_and_act(self, at: Micros, *, early: bool) -> TickRecord | Gap:
        known = self._snapshot_inputs(at, early=early)
        snapshot = self._dependencies.snapshot_reader.close_snapshot(self._round, at, known)
        self._log.state("survey", snapshot.reason if isinstance(snapshot, Gap) else "", at)
        if isinstance(snapshot, Gap):
            return snapshot
        if self._plugins and self._dependencies.plugins is not None:
            self._dependencies.plugins.offer(snapshot)
        return self._decide_and_apply(snapshot)

    def _read_objects(self, at: Micros) -> None:
        """Reads the objects and resolves the settings; what cannot be read stays as it was."""
        silent = ", ".join(self._dependencies.shared.link(at).lost_touch())
        going_on = f"no updates of {silent}; the last known objects are used" if silent else ""
        self._log.state("API server", going_on, at)
        found = self._dependencies.source.read()
        self._unread_objects = found if isinstance(found, Gap) else None
        if isinstance(found, Gap):
            self._log.state(self._dependencies.origin, found.reason, at)
            return
        plugins = self._use_plugins()
        if found is self._objects and plugins is self._plugins:
            return
        self._objects, self._plugins, before = found, plugins, self._effective
        self._effective = self._resolve(found)
        self._log_switched_off(before, at)
        problems = [each.sentence() for each in self._effective.problems]
        self._log.state(self._dependencies.origin, "; ".join(problems), at)
        told = (f"{each.name}: {each.problem}" for each in plugins if each.problem)
        self._log.state("plug-ins", "; ".join(told), at)
        self._log.state("configuration", "; ".join((*found.warnings, *self._effective.remarks)), at)
        reasons = "; ".join(f"{name}: {why}" for name, why in self._effective.off.items())
        nothing_on = "" if self._effective.policies else f"no policy is on: {reasons}"
        self._log.state("policies", nothing_on, at)

    def _use_plugins(self) -> tuple[PluginState, ...]:
        """Those that the settings in force name: none while the policy is off."""
        settings = self._effective.policies.get(watermark_relief.NAME)
        if self._dependencies.plugins is None:
            return self._plugins
        if not isinstance(settings, watermark_relief.WatermarkReliefSettings):
            return self._dependencies.plugins.use(())
        return self._dependencies.plugins.use(settings.plugins)

    def _log_switched_off(self, before: EffectiveSettings, at: Micros) -> None:
        """Logs why a policy is off that was on, or that a foreign configuration enables. That it is
        on again is logged with the tick, as the end of this state."""
        for name, why in self._effective.off.items():
            if name in before.policies or name in self._effective.wanted:
                self._log.state(name, f"off: {why}", at)

    def _resolve(self, objects: Objects) -> EffectiveSettings:
        if self._plugins:
            ensurance = msgspec.structs.replace(objects.ensurance, plugins=self._plugins)
            objects = msgspec.structs.replace(objects, ensurance=ensurance)
        return resolve_settings(
            objects,
            self._node(objects),
            self._effective,
            self._overrides.settings,
            volcano_dialect(self._overrides.features),
            self._dependencies.policies,
            self._schema,
        )

    def _node(self, objects: Objects) -> Node | None:
        return own_node(objects.nodes, self._overrides.node, self._overrides.host)

    def _snapshot_inputs(self, at: Micros, *, early: bool) -> SnapshotInputs:
        node = self._node(self._objects)
        stated = node.allocatable_cpu if node else self._dependencies.machine_cpu
        off = self._dependencies.actuator.off()
        commands = self._dependencies.commands
        return SnapshotInputs(
            allocatable=self._dependencies.machine_cpu if isinstance(stated, Gap) else stated,
            pods=self._objects.pods,
            held=self._dependencies.actuator.held(),
            off=off,
            precision=self._dependencies.actuator.precision(),
            needs=self._needs(at, off),
            early=early,
            written=self._written_groups,
            sources=self._dependencies.shared.link(at).sources,
            in_flight=commands.progress() if commands else (),
            offered=node.allocatable_extended if node else {},
            ensurance=self._objects.ensurance,
        )

    def _needs(self, at: Micros, off: frozenset[KnobKey]) -> Needs:
        """What the policies need, and everything while somebody asks for the detail."""
        needs = needs_of_policies(self._dependencies.policies, self._policies(), off)
        if needs.metrics:
            needs = merge_needs((needs, needs_of_metrics(needs.metrics)))
        requested = self._dependencies.shared.is_detail_requested(at)
        seen = requested or self.settings.reading is Reading.EVERYTHING
        return merge_needs((needs, EVERYTHING)) if seen else needs

    def _policies(self) -> dict[str, object]:
        return {} if self._paused else self._effective.policies

    def _decide_and_apply(self, snapshot: NodeSnapshot) -> TickRecord:
        actuator = self._dependencies.actuator
        inputs = TickInputs(self._memory, self._policies(), self.settings)
        done = tick(
            snapshot,
            inputs.memory,
            self._dependencies.policies,
            inputs.policies,
            inputs.agent,
            self._cache,
        )
        self._memory = done.memory
        # What goes back makes room: a quota above others that widens, a burst that ends.
        gone = {(held.ref.id, held.knob) for held in done.planned.releases}
        outcomes = (actuator.let_go(gone) if gone else []) + actuator.apply(done.planned.changes)
        self._written_groups = frozenset(outcome.change.ref.id for outcome in outcomes)
        commands = self._run_commands(done, snapshot)
        entries = make_entries(snapshot, outcomes, done.story, commands)
        if self._dependencies.commands is None:
            entries += plan_command_entries(snapshot, done.story.commands)
        log_tick(self._log, snapshot, entries, done.story)
        took = Micros(self._dependencies.clock() - snapshot.at)
        return TickRecord(snapshot, inputs, done.story, tuple(outcomes), entries, took, commands)

    def _run_commands(self, done: TickResult, snapshot: NodeSnapshot) -> tuple[CommandOutcome, ...]:
        """What became of earlier ones."""
        dispatch = self._dependencies.commands
        if dispatch is None:
            return ()
        if snapshot.in_flight and not is_relief_wanted(done.story):
            dispatch.withdraw()
        decided = done.memory.has_decided()
        dispatch.offer(done.planned.commands, snapshot.at, snapshot.workloads, decided=decided)
        return dispatch.outcomes()

    def _publish_round(self, done: TickRecord | Gap) -> None:
        shared = self._dependencies.shared
        if isinstance(done, TickRecord):
            shared.add_tick(done)
        shared.end_round(
            RoundState(
                ended=self._dependencies.clock(),
                problems=self._problems(),
                blind=done.reason if isinstance(done, Gap) else "",
                blind_because=done.problems if isinstance(done, MissingObjects) else (),
                lost_since=self._lost_since,
                paused=self._paused,
                kept=len(self._dependencies.actuator.held()) if isinstance(done, Gap) else None,
                settings=self.settings,
                off=self._effective.off,
            )
        )

    def _problems(self) -> tuple[ConfigurationProblem, ...]:
        """None while the agent waits for objects: `blind` says why it waits."""
        if not self._effective.is_known():
            return ()
        unread = [ConfigurationProblem(self._unread_objects.reason)] if self._unread_objects else []
        return (*unread, *self._effective.problems)


def is_relief_wanted(story: TickReport) -> bool:
    """Whether any rule is triggered that does not only preview."""
    return any(
        rule.state is RuleState.TRIGGERED and not rule.preview
        for line in story.told
        for rule in line.rules
    )


def log_tick(
    log: ChangeLog, snapshot: NodeSnapshot, entries: Iterable[JournalEntry], story: TickReport
) -> None:
    """Its effects; and how each policy went and what it remarked, when that changes."""
    for entry in entries:
        log.effect(entry)
    for line in story.told:
        why = f"{line.course.value}: {line.reason}" if line.course is not PolicyAction.ACTED else ""
        log.state(line.policy, why, snapshot.at)
    remarks = {
        f"{each.about}: {line.policy}": each.text for line in story.told for each in line.remarks
    }
    log.states(remarks, snapshot.at)
