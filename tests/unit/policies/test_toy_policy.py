"""What a policy costs: a value with its settings, a line in a tuple, and a test.

The first half of this file is such a policy. It stands outside the package, and everything that
an agent does with a policy works for it: settings, explain, metrics, doctor, recording, replay,
simulation and release.
"""

from pathlib import Path
from typing import Annotated, Any

import click
import msgspec
import pytest
from click.testing import CliRunner
from msgspec import Meta

from slackwater.agent.dependencies import (
    CommandLineOverrides,
)
from slackwater.agent.effective_settings import EffectiveSettings, resolve_settings
from slackwater.agent.endpoint_server import Query, metrics
from slackwater.agent.recording_replay import replay
from slackwater.agent.shared_state import SharedState, view_of
from slackwater.cli.settings import settings_options, texts_of
from slackwater.contract.schema import Count, SettingsStruct
from slackwater.doctor.features import judge_features
from slackwater.model.cgroup import CgroupRef, Level
from slackwater.model.decision import Act, Because, Decision, Intent, PolicyAction, Verb
from slackwater.model.knob import QUOTA, KnobKey
from slackwater.model.needs import Needs, ReadingField
from slackwater.model.problem import InvalidError
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, MilliCpu
from slackwater.model.workload import Workload
from slackwater.observation.objects.object_set import Objects
from slackwater.policies import catalog
from slackwater.policies.policy import STATELESS, Policy
from slackwater.record.explanation import Explanation, explain
from slackwater.record.journal import Journal, TickRecord
from slackwater.record.metrics import TickCounters
from slackwater.record.recording import decode_recording, encode_recording
from slackwater.simulation.scenario_file import scenario_in
from slackwater.simulation.simulation_run import Simulation

# --- edit 1: the policy, in a file of its own

LABEL = "example.com/cap"


class ToyCapSettings(SettingsStruct, frozen=True):
    """Settings of the cap."""

    enabled: Annotated[bool, Meta(description="Whether pods with the label are capped.")] = False
    milli_cpu: Annotated[
        Count, Meta(ge=10, le=100_000, description="What each of them may use, in milliCPU.")
    ] = 500


def concerns(pod: Workload) -> bool:
    return LABEL in pod.labels


def needs(_settings: ToyCapSettings, _off: frozenset[KnobKey]) -> Needs:
    return Needs({Level.POD: frozenset({ReadingField.QUOTA})})


def decide(snapshot: NodeSnapshot, _memory: object, settings: ToyCapSettings) -> Decision:
    cap = MilliCpu(settings.milli_cpu)
    intents = tuple(
        Intent(
            pod.ref,
            QUOTA.name,
            Verb.CAP,
            cap,
            Because(LABEL, pod.labels[LABEL], f"{cap}m for each"),
            "toy_cap",
        )
        for pod in snapshot.workloads
        if concerns(pod) and isinstance(pod.ref, CgroupRef)
    )
    return Act(intents, STATELESS, {"pods": len(intents)})


TOY_CAP = Policy(
    "toy_cap",
    STATELESS,
    needs,
    decide,
    settings=ToyCapSettings,
    description="caps pods that carry a label",
    concerns=concerns,
    knobs=((QUOTA.name,),),
    level=Level.POD,
)

# --- edit 2: a line in the tuple

POLICIES = (*catalog.POLICIES, TOY_CAP)
SCHEMA = catalog.schema_of(POLICIES)

# --- edit 3: its test

FILE = {"apiVersion": "slackwater.io/v1", "kind": "AgentSettings"}
ON = {"toyCap": {"enabled": True, "milliCpu": 700}}


def by_name(name: str) -> Policy:
    return next(policy for policy in POLICIES if policy.name == name)


def resolved(objects: Objects, texts: dict[str, str] | None = None) -> EffectiveSettings:
    return resolve_settings(objects, None, EffectiveSettings(), texts or {}, policies=POLICIES)


def test_a_settings_file_switches_it_on() -> None:
    own = SCHEMA.read_file({**FILE, "spec": ON}, "s.yaml")
    found = resolved(Objects(settings=own))
    assert found.policies == {"toy_cap": ToyCapSettings(enabled=True, milli_cpu=700)}
    assert found.problems == ()


def test_it_is_off_until_then_and_says_what_would_switch_it_on() -> None:
    assert resolved(Objects()).off["toy_cap"] == "toyCap.enabled is false"


def test_a_bad_value_is_refused_by_its_annotation() -> None:
    with pytest.raises(InvalidError) as caught:
        SCHEMA.read_file({**FILE, "spec": {"toyCap": {"milliCpu": 5}}}, "s.yaml")
    [problem] = caught.value.problems
    assert (problem.where, problem.value) == ("s.yaml: spec.toyCap.milliCpu", "5")


def test_a_flag_or_a_variable_switches_it_on() -> None:
    said: list[dict[str, str]] = []

    def command(**settings: str | None) -> None:
        said.append(texts_of(settings, SCHEMA.rows))

    run = click.command()(settings_options(command, SCHEMA.rows))
    cap = ["--toy-cap-milli-cpu", "800"]
    outcome = CliRunner().invoke(run, cap, env={"SLACKWATER_TOY_CAP_ENABLED": "true"})
    assert outcome.exit_code == 0, outcome.output
    found = resolved(Objects(), said[0])
    assert found.policies == {"toy_cap": ToyCapSettings(enabled=True, milli_cpu=800)}


def test_docs_and_doctor_list_it() -> None:
    assert "**`toyCap.milliCpu`** What each of them may use, in milliCPU." in SCHEMA.render_page()
    [row] = [row for row in judge_features((), None, POLICIES) if row.feature == "toy_cap"]
    assert row.built


class Run:
    """A simulated node with a pod that has the label and one that has not."""

    def __init__(self, folder: Path, overrides: CommandLineOverrides, spec: dict[str, Any]) -> None:
        pods = [{"name": name, "tier": "burstable", "demand": 2} for name in ("capped", "free")]
        settings = {"cpus": 4, "duration": "20s", "settings": spec, "pods": pods}
        document = {"apiVersion": "slackwater.io/v1", "kind": "Scenario", "spec": settings}
        scenario = scenario_in({**document, "metadata": {"name": "toy"}}, "toy.yaml", SCHEMA)
        capped, free = scenario.pods
        labelled = msgspec.structs.replace(capped, labels={LABEL: "yes"})
        scenario = msgspec.structs.replace(scenario, pods=(labelled, free))
        self.simulation = Simulation(scenario, str(folder), overrides, POLICIES)
        self.shared = SharedState(Journal(60), TickCounters(), lambda: None, policies=POLICIES)
        self.simulation.run(self._watch)

    def _watch(self, _at: Micros, done: object) -> None:
        assert isinstance(done, TickRecord)
        self.shared.add_tick(done)

    @property
    def latest(self) -> TickRecord:
        assert self.shared.journal.latest is not None
        return self.shared.journal.latest

    def quotas(self) -> dict[str, Any]:
        """By the pod's name, as the kernel shows them."""
        kernel = self.simulation.kernel
        pods = self.latest.snapshot.workloads
        return {
            pod.name: kernel.read(pod.ref, QUOTA) for pod in pods if isinstance(pod.ref, CgroupRef)
        }

    def explained(self, target: str) -> tuple[Explanation, ...]:
        rows = explain(view_of(self.shared, self.latest.snapshot.at), target)
        assert isinstance(rows, tuple)
        return rows


CAPPED = {"capped": Bandwidth(Micros(70_000)), "free": Bandwidth(UNLIMITED)}
FREE = {"capped": Bandwidth(UNLIMITED), "free": Bandwidth(UNLIMITED)}
BY_FLAGS = {"toyCap.enabled": "true", "toyCap.milliCpu": "700"}


@pytest.mark.parametrize(("spec", "texts"), [(ON, {}), ({}, BY_FLAGS)])
def test_it_is_simulated_and_released(
    tmp_path: Path, spec: dict[str, Any], texts: dict[str, str]
) -> None:
    run = Run(tmp_path, CommandLineOverrides(settings=texts), spec)
    assert run.quotas() == CAPPED
    [told] = run.latest.story.told
    assert (told.policy, told.course, told.numbers) == (
        "toy_cap",
        PolicyAction.ACTED,
        {"pods": 1},
    )
    run.simulation.release()
    assert run.quotas() == FREE
    run.simulation.close()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path, CommandLineOverrides(), ON)


def test_it_is_explained(run: Run) -> None:
    [row] = run.explained("capped")
    assert (row.knob, row.now, row.baseline) == ("quota", "700m", "unlimited")
    [part] = row.contributions
    assert (part.policy, part.verb, part.value) == ("toy_cap", "cap", "700m")
    assert (part.because.signal, part.because.seen) == (LABEL, "yes")


def test_a_pod_with_the_label_is_told_that_it_is_off(tmp_path: Path) -> None:
    """And one that others concern is told of those."""
    run = Run(tmp_path, CommandLineOverrides(), {"qosLevel": {"enabled": True}})
    off = resolved(Objects()).off
    run.shared.end_round(msgspec.structs.replace(run.shared.last_round, off=off))
    pods = {pod.name: pod for pod in run.latest.snapshot.workloads}
    told = {
        name: [policy for policy in off if by_name(policy).concerns(pod)]
        for name, pod in pods.items()
    }
    assert told == {"capped": ["toy_cap"], "free": []}
    [row] = run.explained("capped")
    assert ("toy_cap", "off") in [(each.policy, each.course) for each in row.holds]


def test_it_is_metered(run: Run) -> None:
    query = Query(run.shared, run.latest.snapshot.at)
    text = metrics(query).body.decode()
    assert 'slackwater_policy_enabled{policy="toy_cap"} 1' in text
    assert 'slackwater_policy_number{number="pods",policy="toy_cap"} 1' in text


def test_it_is_recorded_and_replayed(run: Run) -> None:
    recording = decode_recording(encode_recording(run.shared.journal.ticks))
    report = replay(recording, POLICIES)
    assert (report.differences, report.problems) == ((), ())

    def loosened(settings: Any) -> Any:
        changed = {"toy_cap": ToyCapSettings(enabled=True, milli_cpu=900)}
        return msgspec.structs.replace(settings, policies={**settings.policies, **changed})

    first = replay(recording, POLICIES, loosened).differences[0]
    assert (first.then, first.now) == ("700m", "900m")
