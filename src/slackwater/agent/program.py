"""One node's agent: reads objects, observes the node, runs the tick and carries out its plan.

Keeps what lives between rounds. Decisions are made by agent.tick; clocks and files are arguments.
"""

from collections.abc import Mapping

import msgspec

from slackwater.agent.container_start import TickBasis, find_starts
from slackwater.agent.dependencies import (
    CLUSTER,
    NO_OVERRIDES,
    AgentDependencies,
    CommandLineOverrides,
)
from slackwater.agent.effective_settings import EffectiveSettings, resolve_settings, volcano_dialect
from slackwater.agent.pause import Pause
from slackwater.agent.shared_state import ReleaseDone
from slackwater.agent.tick import (
    PolicyNeeds,
    PolicyState,
    TickCache,
    TickMemory,
    TickResult,
    tick,
)
from slackwater.agent.tick_log import log_tick
from slackwater.agent.withdrawn_settings import Loosening, WithdrawnSettings, loosen
from slackwater.contract.crane.metrics import needs_of_metrics
from slackwater.contract.crane.node_reserve import resources_of
from slackwater.contract.ensurance_plugin import PluginState
from slackwater.contract.koordinator.physical import physical_node
from slackwater.contract.kubernetes import Node
from slackwater.model.cgroup import Level
from slackwater.model.decision import (
    CpuPlacement,
    RuleReport,
    RuleState,
    TickReport,
)
from slackwater.model.gap import Gap
from slackwater.model.knob import CPUS, KnobKey
from slackwater.model.needs import EVERYTHING, Needs, ReadingField, merge_needs
from slackwater.model.plan import (
    CommandOutcome,
    Result,
    follow_refusals,
)
from slackwater.model.problem import ConfigurationProblem
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Micros
from slackwater.observation.objects.object_set import MissingObjects, Objects, own_node
from slackwater.observation.survey import SnapshotInputs
from slackwater.policies import normalization
from slackwater.policies.catalog import schema_of
from slackwater.policies.ensurance import watermark_relief
from slackwater.policies.ensurance.watermark_settings import WatermarkReliefSettings
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
from slackwater.record.rule_changes import RuleKey, follow_rules, rule_entries
from slackwater.resolution.planning import PlannedChanges
from slackwater.runtime.change_log import ChangeLog, EntrySink
from slackwater.settings.agent_settings import AgentSettings, Reading

#: Also where no policy looks at containers: it may have been switched off meanwhile.
_NEEDED_OF_STARTS = Needs({Level.CONTAINER: frozenset({ReadingField.QUOTA})})


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
        self._policy_needs = PolicyNeeds()
        self._effective = EffectiveSettings()
        self._objects = Objects()
        self._plugins: tuple[PluginState, ...] = ()
        self._due: Micros | None = None
        self._pause = Pause(dependencies.pause_file, dependencies.release_asked)
        self._unread_objects: Gap | None = None
        self._lost_since: Micros | None = None
        self._written_groups: frozenset[int] = frozenset()
        self._refused_cpus: dict[int, str] = {}
        self._withdrawn = WithdrawnSettings()
        #: Groups in which a quota should appear that a runtime was told of.
        self._awaited: frozenset[int] = frozenset()
        self._rules: Mapping[RuleKey, RuleReport] = {}
        self._placement: CpuPlacement | Gap | None = Gap("nothing has been decided yet")

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
        if self._pause.adopt():
            self._log.effect(JournalEntry(0, at, "paused", because=self._pause.because))
        self._load_memory(at)
        for adopted in self._dependencies.actuator.adopt().live:
            what = f"{adopted.entry.knob} of {adopted.entry.ref.path}"
            because = f"adopted: {adopted.ownership.value}"
            self._log.effect(JournalEntry(0, at, what, because=because))

    def _load_memory(self, at: Micros) -> None:
        files = self._dependencies.memory_files
        kept, problems = files.load() if files else ({}, ())
        self._memory = TickMemory({name: PolicyState(each) for name, each in kept.items()})
        for problem in problems:
            self._log.effect(JournalEntry(0, at, "history", because=problem))

    def _save_memory(self, at: Micros | None = None) -> None:
        """Once a minute, and without a time at once."""
        files = self._dependencies.memory_files
        if files is not None:
            known = {name: state.memory for name, state in self._memory.policies.items()}
            told = files.save(known) if at is None else files.offer(known, at)
            self._log.state("history", told, at or Micros(0))

    def pause(self, at: Micros) -> float:
        """Seconds until the next round: rounds keep to the period, whatever one of them took."""
        if self._due is None:
            self._due = at
        return max(self._due - at, 0) / 1_000_000

    def _schedule_next(self, at: Micros) -> None:
        """A period after this round was due. A late round is not made up for: the next one is half
        a period away at least, as a shorter look shows nothing but noise."""
        period = self.settings.period
        due = (at if self._due is None else self._due) + period
        soonest = at + period // 2
        self._due = Micros(due if due >= soonest else at + period)

    def release(self, at: Micros, because: str) -> ReleaseDone:
        """Restores every value; the Node's taint and condition go off the loop."""
        if self._dependencies.commands is not None:
            self._dependencies.commands.release()
        outcomes = self._dependencies.actuator.release()
        self._dependencies.shared.tally.add_outcomes(outcomes)
        entries = tuple(outcome_entry(outcome, self._round, at, because) for outcome in outcomes)
        for entry in entries:
            self._log.effect(entry)
        if self._dependencies.memory_files is not None:
            self._save_memory()
            self._dependencies.memory_files.forget_what_stands()
        self._memory = TickMemory()
        left = sum(o.result in (Result.REFUSED, Result.UNSUPPORTED) for o in outcomes)
        ledger = self._dependencies.ledger
        if ledger is not None and ledger.unusable is not None:
            unread = JournalEntry(self._round, at, "ledger", because=ledger.unusable.reason)
            self._log.effect(unread)
            return ReleaseDone((*entries, unread), left + 1)
        return ReleaseDone(entries, left)

    def close(self) -> None:
        """After the commands were stopped: the last of them are logged."""
        commands = self._dependencies.commands
        for outcome in commands.outcomes() if commands else ():
            self._log.effect(command_entry(outcome, self._round))
        self._save_memory()
        self._dependencies.snapshot_reader.close()
        if self._dependencies.plugins is not None:
            self._dependencies.plugins.close()

    def once(self, at: Micros, *, early: bool = False) -> TickRecord | Gap:
        """One round. A Gap if objects or the tree are missing: nothing is written then."""
        self._round += 1
        self._log.round = self._round
        if not early:
            self._schedule_next(at)
        self._follow_pause(at)
        self._read_objects(at)
        waits = self._missing_objects()
        done = waits or self._observe_and_act(at, early=early)
        if waits or isinstance(done, TickRecord):
            self._lost_since = None
        elif self._lost_since is None:
            self._lost_since = at
        self._publish_round(done)
        return done

    def _follow_pause(self, at: Micros) -> None:
        shared = self._dependencies.shared
        if shared.is_release_requested():
            self._log.state("pause", self._pause.begin_by_hand(), at)
            shared.finish_release(self.release(at, "released manually"))
        if self._pause.is_release_due(at):
            self._pause.note_left(self.release(at, "released on every node").left, at)
        if self._pause.ends_by_hand() or self._pause.ends_everywhere():
            because = self._pause.because and f"still {self._pause.because}"
            self._log.effect(JournalEntry(self._round, at, "resumed", because=because or "told to"))

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
        return MissingObjects(reason, problems=because) if because else Gap(reason)

    def _observe_and_act(self, at: Micros, *, early: bool) -> TickRecord | Gap:
        known = self._snapshot_inputs(at, early=early)
        snapshot = self._dependencies.snapshot_reader.close_snapshot(self._round, at, known)
        self._log.state("survey", snapshot.reason if isinstance(snapshot, Gap) else "", at)
        if isinstance(snapshot, Gap):
            return snapshot
        snapshot = self._with_starts(snapshot)
        if self._plugins and self._dependencies.plugins is not None:
            self._dependencies.plugins.offer(snapshot)
        done = self._decide_and_apply(snapshot)
        needs = self._needs(at, known.off)
        if needs.fields != known.needs.fields:
            now = self._dependencies.clock()
            self._dependencies.snapshot_reader.start_counters(now, needs)
        return done

    def _with_starts(self, snapshot: NodeSnapshot) -> NodeSnapshot:
        """With the quotas among what is ours that a runtime was told of and has set since."""
        notes = self._dependencies.start_notes
        told = notes.starts() if notes is not None else ()
        if notes is None or not told:
            self._awaited = frozenset()
            return snapshot
        found = find_starts(snapshot, told)
        self._awaited = found.awaited
        for note, ref in found.adopted:
            notes.adopt_start(note, ref)
        for note in found.forgotten:
            notes.forget_start(note)
        if not found.adopted:
            return snapshot
        return msgspec.structs.replace(snapshot, held=self._dependencies.actuator.held())

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
        kept = found
        if self._dependencies.origin == CLUSTER:
            kept = self._withdrawn.keep(found, at, self.settings.hold_for)
        self._use_objects(kept, at)
        if self._dependencies.checkpoint is not None and not self._effective.outdated:
            unsaved = self._dependencies.checkpoint.offer(found, at, heard=not silent)
            self._log.state("checkpoint", unsaved, at)

    def _use_objects(self, found: Objects, at: Micros) -> None:
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
        if not isinstance(settings, WatermarkReliefSettings):
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
        found = self._resolve_after(self._effective, objects)
        said = objects.recalled
        if said is None or found.is_known():
            return found
        # Wrong from the start: what they said in the run before is in force.
        before = msgspec.structs.replace(
            objects, settings=said.settings, colocation=said.colocation
        )
        return self._resolve_after(self._resolve_after(self._effective, before), objects)

    def _resolve_after(self, before: EffectiveSettings, objects: Objects) -> EffectiveSettings:
        return resolve_settings(
            objects,
            self._node(objects),
            before,
            self._overrides.settings,
            volcano_dialect(self._overrides.features),
            self._dependencies.policies,
            self._schema,
        )

    def _node(self, objects: Objects) -> Node | None:
        return own_node(objects.nodes, self._overrides.node, self._overrides.host)

    def _snapshot_inputs(self, at: Micros, *, early: bool) -> SnapshotInputs:
        declared = self._node(self._objects)
        node = physical_node(declared) if declared else None
        stated = node.allocatable_cpu if node else self._dependencies.machine_cpu
        worth = normalization.cpu_worth(self._policies().get(normalization.NAME))
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
            written=self._written_groups | self._awaited,
            sources=self._dependencies.shared.link(at).sources,
            in_flight=commands.progress() if commands else (),
            node_resources=resources_of(node, declared, worth),
            predictions=tuple(
                each for each in self._objects.predictions if node and each.node == node.name
            ),
            ensurance=self._objects.ensurance,
            placement=self._placement,
            refused_cpus=self._refused_cpus,
        )

    def _needs(self, at: Micros, off: frozenset[KnobKey]) -> Needs:
        """What the policies need, and everything while somebody asks for the detail."""
        needs = self._policy_needs.find(
            self._dependencies.policies, self._policies(), off, self._objects.pods, self._memory
        )
        if needs.metrics:
            needs = merge_needs((needs, needs_of_metrics(needs.metrics)))
        if self._dependencies.start_notes is not None and self._dependencies.start_notes.starts():
            needs = merge_needs((needs, _NEEDED_OF_STARTS))
        requested = self._dependencies.shared.is_detail_requested(at)
        seen = requested or self.settings.reading is Reading.EVERYTHING
        return merge_needs((needs, EVERYTHING)) if seen else needs

    def _policies(self) -> dict[str, object]:
        return {} if self._pause.because else self._effective.policies

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
        self._memory, self._placement = done.memory, done.story.placement
        self._dependencies.shared.basis = TickBasis(snapshot, done.memory, inputs.policies)
        self._save_memory(snapshot.at)
        # What goes back makes room: a quota above others that widens, a burst that ends.
        now = self._loosened(done.planned, snapshot)
        gone = {(held.ref.id, held.knob) for held in now.releases}
        released = actuator.let_go(gone) if gone else []
        applied = actuator.apply((*done.planned.changes, *now.changes))
        self._refused_cpus = follow_refusals(snapshot.refused_cpus, applied, CPUS)
        outcomes = released + applied
        self._written_groups = frozenset(outcome.change.ref.id for outcome in outcomes)
        commands = self._run_commands(done, snapshot)
        entries = make_entries(snapshot, outcomes, done.story, commands)
        rules = follow_rules(done.story, self._rules)
        entries += tuple(rule_entries(snapshot, self._rules, rules))
        self._rules = rules
        if self._dependencies.commands is None:
            entries += plan_command_entries(snapshot, done.story.commands)
        log_tick(self._log, snapshot, entries, done.story)
        took = Micros(self._dependencies.clock() - snapshot.at)
        return TickRecord(snapshot, inputs, done.story, tuple(outcomes), entries, took, commands)

    def _loosened(self, planned: PlannedChanges, snapshot: NodeSnapshot) -> Loosening:
        """What is let go now: everything, unless the settings were deleted a moment ago."""
        until, machine = self._withdrawn.loosened_until, self._dependencies.machine_cpu
        if until is None or until <= snapshot.at or self._pause.because or isinstance(machine, Gap):
            return Loosening(planned.releases, ())
        left = Micros(until - snapshot.at)
        return loosen(planned.releases, snapshot.readings, left, self.settings.period, machine)

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
        shared, noted = self._dependencies.shared, self._dependencies.ledger
        if isinstance(done, TickRecord):
            shared.add_tick(done)
        problems = noted.problems if noted else ()
        self._log.state("ledger", "; ".join(problems), self._dependencies.clock())
        shared.end_round(
            RoundState(
                ended=self._dependencies.clock(),
                problems=self._problems(),
                blind=done.reason if isinstance(done, Gap) else "",
                blind_because=done.problems if isinstance(done, MissingObjects) else (),
                lost_since=self._lost_since,
                paused=self._pause.because,
                released_for=self._pause.carried_out(),
                kept=len(self._dependencies.actuator.held()) if isinstance(done, Gap) else None,
                ledger=problems,
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
