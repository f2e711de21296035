"""Any document is a scenario or one sentence; any scenario is lived to its end, and undone."""

import tempfile
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.model.problem import InvalidError
from slackwater.model.units import Micros
from slackwater.simulation.scenario import Scenario
from slackwater.simulation.scenario_file import scenario_in
from slackwater.simulation.scenario_picture import draw_scenario
from slackwater.simulation.scenario_report import make_report
from slackwater.simulation.simulation_run import Simulation
from slackwater.simulation.timeline import FEW
from tests.unit.simulation.mortal import MAINLINE, MEMORY

pytestmark = pytest.mark.long

SOME = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
FEW_LIVES = settings(SOME, max_examples=25)
KEYS = (
    *("cgroup", "cpus", "duration", "period", "seed", "settings", "objects", "system", "pods"),
    *("events", "name", "tier", "request", "limit", "weight", "demand", "from", "until", "at"),
    *("kind", "down", "target", "quota", "times", "every", "pod", "for", "sum", "noise", "daily"),
    *("steady", "agent", "bestEffortShare", "enabled", "threshold", "metadata"),
)
WORDS = (
    "v1", "1s", "10m", "1h", "-1s", "2", "500m", "x", "", "web", "besteffort", "burstable", "kill",
    "rival-write", "pod-added", "pod-removed", "pressure", "blind", "unlimited", "Node", "Pod",
    "ConfigMap", "\ud800", "a\nb", "9" * 400,
)  # fmt: skip
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=True),
    st.sampled_from(WORDS),
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.sampled_from(KEYS), SCALARS), inner, max_size=5),
    ),
    max_leaves=25,
)
SPECS = st.dictionaries(st.sampled_from(KEYS[:10]), ANYTHING, max_size=6)


def outlined(spec: object) -> dict[str, object]:
    return {"apiVersion": "slackwater.io/v1", "kind": "Scenario", "spec": spec}


def read(document: object) -> Scenario | None:
    try:
        return scenario_in(document, "s.yaml")
    except InvalidError as error:
        sentence = str(error)
        assert sentence
        assert "\n" not in sentence
        assert len(sentence) < 1000
        return None


@SOME
@given(ANYTHING)
def test_anything_is_a_scenario_or_a_sentence(document: object) -> None:
    assert read(document) is None or isinstance(document, dict)


@SOME
@given(SPECS)
def test_any_spec_is_a_scenario_or_a_sentence(spec: dict[str, object]) -> None:
    found = read(outlined({"cpus": 2, "duration": "10s", **spec}))
    if found is not None:
        assert 1 <= found.cpus <= 512


@SOME
@given(ANYTHING)
def test_any_demand_pod_and_event_too(value: object) -> None:
    base: dict[str, Any] = {"cpus": 2, "duration": "10s"}
    pod = {"name": "web", "tier": "burstable", "demand": value}
    read(outlined({**base, "pods": [pod]}))
    read(outlined({**base, "pods": [value]}))
    read(outlined({**base, "events": [value]}))
    for kind in ("kill", "rival-write", "settings", "pod-added", "pod-removed", "blind"):
        keys = {"kill": "down", "rival-write": "quota", "settings": "settings", "blind": "for"}
        event = {"at": "1s", "kind": kind, keys.get(kind, "pod"): value}
        if kind == "rival-write":
            event["target"] = "besteffort"
        read(outlined({**base, "events": [event]}))


AMOUNTS = st.integers(0, 5000).map(lambda milli: f"{milli}m")
SECONDS = st.integers(0, 20).map(lambda second: f"{second}s")
DEMANDS = st.one_of(
    AMOUNTS,
    st.builds(lambda a: {"noise": {"high": a}}, AMOUNTS),
    st.builds(lambda a, b: {"square": {"period": "3s", "high": a, "low": b}}, AMOUNTS, AMOUNTS),
    st.builds(lambda a, t: {"spike": {"at": t, "height": a, "for": "2s"}}, AMOUNTS, SECONDS),
)


@st.composite
def lives(draw: st.DrawFn) -> Scenario:
    pods = []
    for number in range(draw(st.integers(0, 5))):
        tier = draw(st.sampled_from(("guaranteed", "burstable", "besteffort")))
        pod = {"name": f"p{number}", "tier": tier, "demand": draw(DEMANDS)}
        if tier != "besteffort":
            pod["request"] = draw(AMOUNTS)
        pod["from"] = draw(SECONDS)
        if draw(st.booleans()):
            pod["until"] = f"{int(pod['from'][:-1]) + draw(st.integers(1, 9))}s"
        pods.append(pod)
    kinds = st.one_of(
        st.builds(lambda d: {"kind": "kill", "down": d}, SECONDS),
        st.just({"kind": "pressure"}),
        st.just({"kind": "blind", "for": "4s"}),
        st.builds(
            lambda q: {"kind": "rival-write", "target": "burstable", "quota": q},
            st.one_of(st.just("unlimited"), st.just("700m")),
        ),
        st.builds(
            lambda on: {"kind": "settings", "settings": {"bestEffortShare": {"enabled": on}}},
            st.booleans(),
        ),
    )
    events = [{**draw(kinds), "at": draw(SECONDS)} for _ in range(draw(st.integers(0, 5)))]
    share = {"enabled": draw(st.booleans()), "threshold": draw(st.integers(1, 100))}
    spec = {
        "cgroup": draw(st.sampled_from(("v1", "v2"))),
        "cpus": draw(st.integers(1, 8)),
        "duration": "20s",
        "settings": {"bestEffortShare": share},
        "pods": pods,
        "events": events,
        "seed": draw(st.integers(0, 9)),
    }
    return scenario_in(outlined(spec), "s.yaml")


@FEW_LIVES
@given(lives())
def test_any_life_ends_and_is_undone(scenario: Scenario) -> None:
    """The best-effort tier is as the kubelet made it; what a rival wrote elsewhere stays."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        simulation = Simulation(scenario, folder)
        tier = next(ref for ref in simulation.kernel.refs() if ref.name() == "besteffort")
        baseline = {knob.name: simulation.kernel.read(tier, knob) for knob in MAINLINE}
        times: list[Micros] = []
        simulation.run(lambda at, _done: times.append(at))
        rows = simulation.timeline.rows(FEW)
        report = make_report(simulation, rows, simulation.release())
        simulation.close()
        assert report.left == 0
        assert {knob.name: simulation.kernel.read(tier, knob) for knob in MAINLINE} == baseline
        assert times == sorted(times)
        assert draw_scenario(report, simulation.meter, rows).endswith("</svg>\n")
        assert report.best_effort.part is None or 0 <= report.best_effort.part <= 1
        assert sum(tier.got for tier in report.tiers) <= 20 * scenario.cpus + 0.01
