"""Runs a scenario: the real agent, executor, ledger and journal on a node in memory.

It drives virtual time and applies the scenario's events. Every decision is the agent's own, so a
simulation shows what the same build would do on a real node.
"""

import itertools
from collections.abc import Callable, Mapping

import msgspec

from slackwater.agent.dependencies import (
    NO_OVERRIDES,
    CommandLineOverrides,
)
from slackwater.agent.program import (
    Agent,
)
from slackwater.agent.shared_state import SharedState
from slackwater.execution.ledger import Ledger
from slackwater.model.cpus import CpuPolicy
from slackwater.model.elastic import ELASTIC_CPU
from slackwater.model.gap import Gap
from slackwater.model.knob import QUOTA
from slackwater.model.units import DEFAULT_PERIOD, Micros, MilliCpu, Unlimited
from slackwater.policies.catalog import POLICIES
from slackwater.policies.policy import Policy
from slackwater.record.cpu_map import ContainerCpus, map_cpus
from slackwater.record.journal import JournalEntry, TickRecord, format_value
from slackwater.record.rule_events import TriggeredRules, due_rule_events
from slackwater.resolution.quota import quota_value
from slackwater.simulation.fake_kernel import FakeKernel
from slackwater.simulation.job_queue import JobQueue
from slackwater.simulation.meter import UsageMeter
from slackwater.simulation.scenario import (
    Blind,
    Event,
    Kill,
    NewAnnotations,
    NewObjects,
    NewSettings,
    Pressure,
    RivalWrite,
    Scenario,
    ScenarioPod,
)
from slackwater.simulation.simulated_api_server import SimulatedApiServer, SimulatedCommands
from slackwater.simulation.simulated_node import (
    CONTAINER,
    ScenarioSource,
    SimulatedNode,
    start_agent,
)
from slackwater.simulation.timeline import Timeline

BOOT = "simulation"
_SECOND = 1_000_000
#: A name has 63 characters; the rest is for a dash and a number.
_LONGEST_STEM = 56

RoundObserver = Callable[[Micros, TickRecord | Gap], None]


class SimulationError(Exception):
    """One sentence about what is missing or misconfigured."""


class Simulation:
    """One run: the node, its agent, the ledger's folder, the timeline and the meter."""

    def __init__(
        self,
        scenario: Scenario,
        folder: str,
        overrides: CommandLineOverrides = NO_OVERRIDES,
        policies: tuple[Policy, ...] = POLICIES,
    ) -> None:
        self.scenario = scenario
        self.kernel = FakeKernel(scenario.version, scenario.cpus)
        self.node = SimulatedNode(self.kernel, scenario.system, scenario.machine)
        self.timeline = Timeline()
        self.meter = UsageMeter(self.node, scenario.duration)
        self._folder = folder
        self._overrides = overrides
        self._policies = policies
        self._source = ScenarioSource(scenario.objects)
        self._events = list(scenario.events)
        self._pods = sorted(_pod_changes(scenario.pods), key=lambda move: move[0])
        self.jobs = JobQueue(scenario.jobs)
        self.server = SimulatedApiServer(self.node.find_pod, self._clock)
        #: What controllers replace evicted pods by, and from when on.
        self._replacements: list[tuple[Micros, ScenarioPod]] = []
        #: The name of the first pod in a row of replacements, by the name of each.
        self._stems: dict[str, str] = {}
        self._ending: frozenset[str] = frozenset()
        self._triggered: TriggeredRules = {}
        #: Of the round that runs: what rules did comes before what it led to.
        self._entries: list[JournalEntry] = []
        self._blind_until = Micros(0)
        #: None while the agent runs.
        self._restart_at: Micros | None = None
        self._latest: TickRecord | None = None
        #: Where each pod was at the end.
        self.placements: tuple[ContainerCpus, ...] = ()
        self._update_pods()
        self._start()

    def run(self, watch: RoundObserver) -> None:
        """To the scenario's end; `watch` is called with every round."""
        end = self.scenario.duration
        while self.kernel.now < end:
            self._step(watch)
            self.kernel.advance(Micros(min(self._next(), end) - self.kernel.now))
        self.meter.measure(self.kernel.now)
        self.placements = self._find_placements()

    def release(self) -> int:
        """Restores everything, as `slackwater release` does; returns how many knobs are left."""
        if self._restart_at is not None:
            self._start()
        left = self.agent.release(self.kernel.now, "the simulation ends").left
        self._tell_effects()
        return left

    def _find_placements(self) -> tuple[ContainerCpus, ...]:
        """Of the pods that run now, by name: the CPUs as the kernel has them, the policy and the
        reason as the agent gives them."""
        found = Gap("no tick yet") if self._latest is None else map_cpus(self._latest)
        known = () if isinstance(found, Gap) else found.containers
        by_pod = {each.pod: each for each in known}
        return tuple(self._placement(pod, by_pod.get(pod.title())) for pod in self.node.pods)

    def _placement(self, pod: ScenarioPod, known: ContainerCpus | None) -> ContainerCpus:
        cpus = self.node.container_cpus(pod.name)
        shown = "" if isinstance(cpus, Gap) else cpus.format()
        if known is None:
            return ContainerCpus(pod.name, CONTAINER, CpuPolicy.NONE.value, shown, "")
        return msgspec.structs.replace(known, pod=pod.name, cpus=shown)

    @property
    def agent(self) -> Agent:
        """The one that runs, or ran last."""
        return self._process.agent

    @property
    def shared(self) -> SharedState:
        """What the agent's endpoints answer from."""
        return self._process.shared

    def close(self) -> None:
        self._process.end()

    def _clock(self) -> Micros:
        return self.kernel.now

    def _step(self, watch: RoundObserver) -> None:
        """Measures, applies what is due, and runs a round of the agent, in that order."""
        now = self.kernel.now
        self.meter.measure(now)
        self._update_pods()
        if self._restart_at is not None and now >= self._restart_at:
            self._start()
        early = self._apply_due_events(now)
        due = self.agent.pause(now) == 0
        if self._restart_at is None and (early or due):
            done = self.agent.once(now, early=not due)
            self._latest = done if isinstance(done, TickRecord) else self._latest
            self.meter.add_round(done)
            self._tell_rules(done)
            self._tell_effects()
            watch(now, done)

    def _tell_effects(self) -> None:
        for entry in self._entries:
            self.timeline.add_entry(entry)
        self._entries.clear()

    def _tell_rules(self, done: TickRecord | Gap) -> None:
        if isinstance(done, TickRecord):
            at = done.snapshot.at
            events, self._triggered = due_rule_events(done.story, self._triggered, at)
            for event in events:
                self.timeline.add_rule_event(at, event.reason, event.message)

    def _next(self) -> Micros:
        """The next moment at which something happens. While the agent is down, time still passes in
        steps of its period: the report's worst hundredth is counted in them."""
        now, period = self.kernel.now, self.agent.settings.period
        lives = self._restart_at is None
        moments = [Micros(now + (round(self.agent.pause(now) * _SECOND) if lives else period))]
        moments += [event.at for event in self._events[:1]]
        moments += [at for at, _ in self._pods[:1]]
        moments += [at for at in self.server.ending.values() if at > now]
        moments += [at for at, _ in self._replacements if at > now]
        return min(moments if self._restart_at is None else [*moments, self._restart_at])

    def _update_pods(self) -> None:
        """Pods come and end as the scenario says, end when they were evicted, and are replaced."""
        now, before = self.kernel.now, (self.node.pods, self._ending)
        while self._pods and self._pods[0][0] <= now:
            at, pod = self._pods.pop(0)
            if at != pod.ends:
                self._add_pod(pod)
            elif self.node.find_pod(pod.name):
                self._remove_pod(pod, "it ended")
        for uid in [uid for uid, at in self.server.ending.items() if at <= now]:
            evicted = self.node.find_pod(uid)
            if evicted is not None:
                self._remove_pod(evicted, "it ended: it was evicted")
                self._replace_pod(evicted)
        for each in [each for each in self._replacements if each[0] <= now]:
            if not self.server.interference.effect and each[1].ends > now:
                self._replacements.remove(each)
                self._add_pod(each[1])
        self._place_jobs(now)
        self._ending = frozenset(self.server.ending)
        if (self.node.pods, self._ending) != before:
            self._source.set_pods(self.node.pods, self._ending)

    def _place_jobs(self, now: Micros) -> None:
        """As the scheduler would: where the Node offers what they ask for, and has no taint."""
        if not self.scenario.jobs:
            return
        offered = self.server.offer.amounts.get(ELASTIC_CPU, 0) * 1000
        living = frozenset(pod.name for pod in self.node.pods)
        room = 0 if self.server.interference.effect else offered
        for pod in self.jobs.place(now, MilliCpu(room), living):
            self._add_pod(pod)
            self._pods.append((pod.ends, pod))
        self._pods.sort(key=lambda move: move[0])
        self.meter.set_sold(MilliCpu(offered), self.jobs.bought(), self.jobs.count_waiting(now))

    def _add_pod(self, pod: ScenarioPod) -> None:
        now = self.kernel.now
        self.node.add(msgspec.structs.replace(pod, starts=now))
        if now:
            self.timeline.add_event(now, f"pod {pod.name}", f"it came, {pod.tier.value}")

    def _remove_pod(self, pod: ScenarioPod, because: str) -> None:
        self.node.remove(pod.name)
        self.server.ending.pop(pod.name, None)
        self.timeline.add_event(self.kernel.now, f"pod {pod.name}", because)

    def _replace_pod(self, pod: ScenarioPod) -> None:
        """By one of the next name that no pod has had, as a controller does."""
        if not pod.replaced:
            return
        stem = self._stems.get(pod.name, pod.name[:_LONGEST_STEM].rstrip("-"))
        taken = {*self._stems, *(each.name for each in self.scenario.pods)}
        name = next(n for number in itertools.count(2) if (n := f"{stem}-{number}") not in taken)
        self._stems[name] = stem
        made = msgspec.structs.replace(pod, name=name, age=Micros(0))
        self._replacements.append((Micros(self.kernel.now + pod.replaced_after), made))

    def _apply_due_events(self, now: Micros) -> bool:
        """Returns whether the agent is woken before its time."""
        woken = False
        while self._events and self._events[0].at <= now:
            event = self._events.pop(0)
            if isinstance(event, Pressure):
                woken = True
                self.timeline.add_event(now, "agent", "woken early by pressure")
            else:
                self._apply_event(event, now)
        return woken

    def _apply_event(self, event: Event, now: Micros) -> None:
        match event:
            case Kill(down=down):
                self.timeline.add_event(now, "agent", f"killed; back in {down // _SECOND} s")
                self._process.end()
                self._restart_at = Micros(now + down)
                if not down:
                    self._start()
            case NewSettings(settings=settings):
                self.timeline.add_event(now, "settings", "new settings")
                objects = msgspec.structs.replace(self._source.objects, settings=settings)
                self._source.objects = objects
            case NewObjects(ensurance=ensurance, what=what):
                self.timeline.add_event(now, "objects", what)
                objects = msgspec.structs.replace(self._source.objects, ensurance=ensurance)
                self._source.objects = objects
            case NewAnnotations(pod=pod, annotations=annotations):
                self._annotate(pod, annotations, now)
            case Blind(length=length):
                because = f"its usage cannot be read for {length // _SECOND} s"
                self.timeline.add_event(now, "node", because)
                self._blind_until = self._process.snapshot_reader.blind_until = Micros(now + length)
            case RivalWrite(target=target, quota=quota):
                self._write_as_rival(target, quota, now)

    def _annotate(self, name: str, annotations: Mapping[str, str], now: Micros) -> None:
        if self.node.find_pod(name) is None:
            because = f"somebody would annotate it, but there is no pod {name} now"
            self.timeline.add_event(now, f"pod {name}", because)
            return
        self.node.annotate(name, annotations)
        self._source.set_pods(self.node.pods, self._ending)
        said = ", ".join(f"{key}: {value}" for key, value in annotations.items())
        self.timeline.add_event(now, f"pod {name}", f"annotated: {said or 'nothing'}")

    def _write_as_rival(self, target: str, quota: MilliCpu | Unlimited, now: Micros) -> None:
        what, ref = f"quota of {target}", self.node.group(target)
        if isinstance(ref, Gap):
            self.timeline.add_event(now, what, f"somebody else would write it, but {ref.reason}")
            return
        value = quota_value(quota, DEFAULT_PERIOD)
        outcome = self.node.put(ref, QUOTA, value)
        because = f"somebody else wrote {format_value(value)}: {outcome.result.value}"
        self.timeline.add_event(now, what, because)

    def _start(self) -> None:
        ledger = Ledger.open(self._folder, BOOT)
        if isinstance(ledger, Gap):
            raise SimulationError(ledger.reason)
        self._process = start_agent(
            self.node,
            self._source,
            ledger,
            self._entries.append,
            self._overrides,
            self._policies,
            SimulatedCommands(self.server, self._clock),
            self.scenario.metrics,
        )
        self._process.snapshot_reader.blind_until = self._blind_until
        self._triggered = {}
        self._restart_at = None
        problems = self.agent.start(self.kernel.now)
        self._tell_effects()
        if problems:
            raise SimulationError("; ".join(problems))


def _pod_changes(pods: tuple[ScenarioPod, ...]) -> list[tuple[Micros, ScenarioPod]]:
    return [(at, pod) for pod in pods for at in (pod.starts, pod.ends)]
