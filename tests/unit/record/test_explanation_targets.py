"""Targets of explain: pods, tiers, the node; what binds them, and words that name nothing."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model import decision
from slackwater.model.cgroup import CgroupRef, Level, Tier
from slackwater.model.decision import Grant, PolicyAction, Remark, TickReport
from slackwater.model.gap import Gap
from slackwater.model.units import UNLIMITED, MilliCpu, Ratio
from slackwater.model.workload import Workload, WorkloadContainer
from slackwater.record.explanation import explain
from slackwater.record.journal import format_amount
from slackwater.record.targets import find_scopes, target_name
from tests.unit.policies.nodes import BESTEFFORT, KUBEPODS, node, pod
from tests.unit.record.stories import Told, rows

BATCH, WEB = pod(1, Tier.BESTEFFORT), pod(2, Tier.BURSTABLE, 500)
PODS = (BATCH, WEB)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("", [("besteffort", "quota")]),
        ("besteffort", [("besteffort", "quota")]),
        ("burstable", [("burstable", None)]),
        ("guaranteed", [("guaranteed", None)]),
        ("node", [("node", None)]),
        ("pod-1", [("default/pod-1", None), ("besteffort", "quota")]),
        ("default/pod-1", [("default/pod-1", None), ("besteffort", "quota")]),
        ("2", [("default/pod-2", None)]),
    ],
)
def test_a_target_and_what_binds_it_from_above(
    target: str, expected: list[tuple[str, str | None]]
) -> None:
    view = Told().tick(node(usage=200, workloads=PODS)).view()
    assert [(row.target, row.knob) for row in rows(view, target)] == expected


def test_nothing_of_a_pod_is_said_in_words() -> None:
    gone = msgspec.structs.replace(WEB, ref=Gap("its cgroup is not there"))
    view = Told().tick(node(usage=200, workloads=(BATCH, gone))).view()
    assert rows(view, "pod-1")[0].remarks == ("no policy asks for anything of it",)
    assert rows(view, "pod-2")[0].remarks == ("it has no group: its cgroup is not there",)
    assert rows(view, "node")[0].remarks == ("no policy asks for anything of the node itself",)


def test_one_name_in_two_namespaces_is_two_pods() -> None:
    other = msgspec.structs.replace(pod(9, Tier.BURSTABLE), name="pod-2", namespace="other")
    view = Told().tick(node(usage=200, workloads=(*PODS, other))).view()
    assert [row.target for row in rows(view, "pod-2")] == ["default/pod-2", "other/pod-2"]
    assert [row.target for row in rows(view, "other/pod-2")] == ["other/pod-2"]


def test_an_unknown_target_is_told_what_there_is() -> None:
    found = explain(Told().tick(node(workloads=PODS)).view(), "web")
    assert found == Gap(
        "there is no 'web' here: there are node, guaranteed, burstable, besteffort, "
        "and the pods default/pod-1, default/pod-2"
    )
    many = tuple(pod(number, Tier.BURSTABLE) for number in range(12))
    found = explain(Told().tick(node(workloads=many)).view(), "web")
    assert isinstance(found, Gap)
    assert found.reason.endswith("and 4 more")
    assert explain(Told().tick(node()).view(), "x/y") == Gap(
        "there is no 'x/y' here: there are node, guaranteed, burstable, besteffort, and no pods"
    )


def test_names_of_groups() -> None:
    inner = CgroupRef("kubepods/burstable/pod2/abc", 900, Level.CONTAINER, Tier.BURSTABLE, "2")
    stray = CgroupRef("kubepods/pod7", 901, Level.POD, owner="7")
    container = WorkloadContainer("nginx", inner, MilliCpu(0), UNLIMITED)
    web = msgspec.structs.replace(WEB, containers=(container,))
    snapshot = node(workloads=(web,))
    named = [target_name(ref, snapshot) for ref in (KUBEPODS, BESTEFFORT, inner, stray)]
    assert named == ["node", "besteffort", "default/pod-2/nginx", "7"]
    unnamed = msgspec.structs.replace(inner, id=902)
    assert target_name(unnamed, snapshot) == "default/pod-2/abc"


def test_a_tier_is_itself_and_its_pods_on_request() -> None:
    """9306 lines for 100 pods are no answer to a question about the tier."""
    told = Told().tick(node(usage=200, workloads=PODS))
    record = told.journal.ticks[0]
    steps = record.story.grants[0].contributions
    mine = [
        CgroupRef(f"{BESTEFFORT.path}/{n}", 500 + n, Level.POD, Tier.BESTEFFORT, str(n))
        for n in (1, 7)
    ]
    grants = tuple(Grant(ref, "quota", 5, steps) for ref in mine)
    remark = Remark("default/pod-1", "odd")
    line = decision.PolicyReport("quota_burst", PolicyAction.ACTED, "x", {}, remarks=(remark,))
    story = TickReport((*record.story.told, line), (*record.story.grants, *grants))
    view = told.view(ticks=(msgspec.structs.replace(record, story=story),))
    tier, hint = rows(view, "besteffort")
    assert (tier.target, tier.knob) == ("besteffort", "quota")
    assert hint.remarks == (
        "values of 2 of its pods are ours too: slackwater explain besteffort --pods",
    )
    everything = rows(view, "besteffort/*")
    assert [row.target for row in everything] == ["besteffort", "default/pod-1", "7", "besteffort"]
    assert everything[-1].remarks == ("default/pod-1: quota_burst: odd",)
    [burstable] = rows(view, "burstable/*")
    assert burstable.remarks == ("no policy asks for anything of it",)


@given(st.text())
def test_any_word_is_a_scope_or_a_sentence(word: str) -> None:
    found = find_scopes(word, node(workloads=(Workload("u", "n", "s", Tier.BURSTABLE, Gap("x")),)))
    assert isinstance(found, Gap) == (
        word not in ("", "node", "u", "n", "s/n", *_tiers(), *(f"{t}/*" for t in _tiers()))
    )


def _tiers() -> list[str]:
    return [tier.value for tier in Tier]


@pytest.mark.parametrize(
    ("knob", "value", "text"),
    [
        ("quota", MilliCpu(600), "600m"),
        ("quota", UNLIMITED, "unlimited"),
        ("quota", Ratio(3, 4), "3/4"),
        ("weight", 512, "512"),
        ("memory-max", UNLIMITED, "unlimited"),
        ("idle", True, "1"),
    ],
)
def test_amounts(knob: str, value: Any, text: str) -> None:
    assert format_amount(knob, value) == text
