"""Features judged by knobs."""

import pytest

from slackwater.doctor.doctor_report import KnobRow
from slackwater.doctor.features import features_of, judge_features, refuse_pinning
from slackwater.model.knob import KNOBS
from slackwater.policies.catalog import POLICIES


def judged(name: str, *rows: tuple[str, str, bool | None]) -> tuple[bool | None, str]:
    """Rows of knob, level and whether it works; the level is also the note."""
    knobs = tuple(KnobRow(knob, level, "file", works, level) for knob, level, works in rows)
    found = next(row for row in judge_features(knobs, psi=None) if row.feature == name)
    return found.possible, found.because


def row(name: str, **works: bool | None) -> tuple[bool | None, str]:
    """As seen in containers where it was not tried or is missing, as tried where it works."""
    levels = {True: "scratch", False: "container", None: "container"}
    return judged(
        name, *((knob.replace("_", "-"), levels[state], state) for knob, state in works.items())
    )


@pytest.mark.parametrize(
    ("name", "works", "possible", "because"),
    [
        ("quota_burst", {"burst": True}, True, "burst works: "),
        ("quota_burst", {"burst": None}, None, "burst was not tried: run with --probe"),
        ("quota_burst", {"burst": False}, False, "burst does not work here"),
        ("quota_burst", {}, False, "burst does not work here"),
        (
            "elastic_resources",
            {"weight": True, "quota": True, "memory_max": True},
            True,
            "weight, quota and memory-max work: ",
        ),
        (
            "elastic_resources",
            {"weight": None, "quota": True, "memory_max": True},
            None,
            "weight, quota and memory-max were not tried",
        ),
        (
            "elastic_resources",
            {"weight": False, "quota": True, "memory_max": True},
            False,
            "weight does not work here",
        ),
        ("qos_level", {"cpu_qos_level": True}, True, "cpu-qos-level works: "),
        ("qos_level", {"cpu_qos_level": False, "idle": True}, True, "idle works: "),
        ("qos_level", {"idle": False, "weight": True}, True, "weight works: "),
        ("qos_level", {"idle": None, "weight": True}, True, "weight works: "),
        ("qos_level", {"idle": None, "weight": False}, None, "idle was not tried"),
        (
            "elastic_resources",
            {},
            False,
            "weight, quota and memory-max do not work here",
        ),
    ],
)
def test_rows(
    name: str, works: dict[str, bool | None], possible: bool | None, because: str
) -> None:
    found = row(name, **works)
    assert found[0] is possible
    assert found[1].startswith(because)


def test_every_need_is_a_knob_or_psi() -> None:
    known = {knob.name for knob in KNOBS} | {"psi"}
    needs = {
        knob
        for f in features_of(POLICIES)
        for alternative in f.alternatives
        for knob in alternative
    }
    assert needs <= known


@pytest.mark.parametrize(
    ("tier", "container", "scratch", "possible"),
    [
        (None, None, True, True),
        (None, False, True, False),  # the kubelet's tree lacks it, whatever a scratch group can
        (False, None, True, True),  # what a tier lacks does not matter to a container's knob
        (None, None, False, None),  # there, but a group at the top cannot have it
        (None, None, None, None),
        (False, False, None, False),
    ],
)
def test_the_tree_has_the_last_word(
    tier: bool | None, container: bool | None, scratch: bool | None, possible: bool | None
) -> None:
    rows = (("cpus", "tier", tier), ("cpus", "container", container), ("cpus", "scratch", scratch))
    assert judged("core_pinning", *rows)[0] is possible


def test_a_tree_without_pods_is_judged_by_its_tiers() -> None:
    assert judged("core_pinning", ("cpus", "tier", False), ("cpus", "scratch", True))[0] is False


def test_the_best_effort_tier_is_judged_by_tiers() -> None:
    rows = (("quota", "tier", None), ("quota", "container", False), ("quota", "scratch", True))
    assert judged("best_effort_share", *rows)[0] is True


def test_psi() -> None:
    states = {state: judge_features((), psi=state)[-1] for state in (True, False, None)}
    assert [states[s].possible for s in (True, False, None)] == [True, False, None]
    assert states[None].because == "psi was not tried: PSI is unknown"


def test_every_policy_is_a_feature() -> None:
    built = {row.feature: row.built for row in judge_features((), None)}
    assert built.keys() == {policy.name for policy in POLICIES} | {"interference"}
    assert all(built.values())


@pytest.mark.parametrize(("policy", "possible"), [("static", False), ("none", True), (None, True)])
def test_beside_the_kubelets_own_cpu_manager(policy: str | None, possible: bool) -> None:
    works = (KnobRow("cpus", "scratch", "cpuset.cpus", True, ""),)
    rows = refuse_pinning(judge_features(works, None), policy)
    [row] = [row for row in rows if row.feature == "core_pinning"]
    assert row.possible is possible
    assert ("cpuManagerPolicy: none" in row.because) is not possible
    assert len(rows) == len(judge_features(works, None))
