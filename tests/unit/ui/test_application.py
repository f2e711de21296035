"""Every address of the page: what it shows, and the one sentence where it cannot."""

import html
from collections.abc import Mapping

import msgspec
import pytest
from starlette.types import ASGIApp

from slackwater.contract.node_report import ActiveRule
from slackwater.model.decision import Because
from slackwater.rebalancer.plan_view import PlanView
from slackwater.record.cpu_map import ContainerCpus, CpuMap, CpuRow
from slackwater.record.explanation import ContributionRow, Explanation, IdlePolicy
from slackwater.record.overview import EntryRow, NodeOverview, Overview, UsageRow
from slackwater.record.rules import RuleRow
from slackwater.status.cluster_status import (
    ClusterStatus,
    NodeState,
    NodeStatusRow,
    PolicyRow,
    Totals,
)
from slackwater.ui.agent_watch import AgentWatch
from slackwater.ui.application import build_application
from slackwater.ui.sources import (
    ClusterSnapshot,
    PageSources,
    RotationPlans,
    WorkloadQuery,
)
from tests.unit.ui.asking import Answer, ask
from tests.unit.ui.stated_sources import (
    AWAY,
    StatedAgent,
    StatedCluster,
    short_recording,
)

AT = "2026-01-01T12:00:01.000Z"
EVIL = "<script>alert(1)</script>"
RULE = RuleRow("NodeQOS/a", "cpu", "cpu_total_usage", "throttle", "triggered", 7.0, 6.0, 2, 0, 2, 2)
SHOWN = Overview(
    tick=7,
    at=AT,
    state="acting",
    node=NodeOverview(allocatable=4000, usage=3000, request=1500),
    tiers=(UsageRow("besteffort", "tier", "besteffort", usage=600, quota=600, throttled=31.0),),
    pods=(
        UsageRow(f"web-{EVIL}", "pod", "burstable", "prod", 500, 500, "unlimited", 0.0, 1.5),
        UsageRow("job", "pod", "besteffort", "batch", gaps={"usage": "it was not read"}),
    ),
    entries=(EntryRow(AT, "quota of kubepods/besteffort", "500m", "600m", EVIL, "applied"),),
    rules=(RULE,),
)
ROWS = (
    Explanation(
        target="besteffort",
        level="tier",
        knob="quota",
        now="600m",
        baseline="unlimited",
        granted="600m",
        since=AT,
        clipped_by="best_effort_share",
        contributions=(
            ContributionRow(
                "best_effort_share", "cap", "600m", Because("used", "1000m", "1600m allowed")
            ),
        ),
        path="kubepods/besteffort",
    ),
    Explanation(
        target="node",
        level="node",
        holds=(IdlePolicy("quota_burst", "not asked for", None, "off"),),
    ),
)
CPUS = CpuMap(
    cpus=(CpuRow(0, 0, 0, 0, 0, True), CpuRow(1, 1, 0, 0, 0, False, exclusive="prod/db/main")),
    containers=(ContainerCpus("prod/db", "main", "exclusive", "1", EVIL),),
    common="0",
)
STATUS = ClusterStatus(
    at=AT,
    server="https://test:6443",
    totals=Totals(nodes=2, reporting=1),
    nodes=(
        NodeStatusRow(
            "n1", NodeState.PROBLEM, 4000, 2000, 500, 3, {"best_effort_share": "on"}, AT, AT,
            "0.1", (f"broken {EVIL}",), {"NodeQOS/a": (ActiveRule("cpu", "triggered", AT),)},
            sold=2500,
        ),
        NodeStatusRow("n2", NodeState.NO_AGENT),
    ),
    policies=(PolicyRow("NodeQOS", "a", "True", "True", "True", 1, "says what", "by 1", "n1"),),
)  # fmt: skip
PLAN = PlanView(
    workload="web", namespace="prod", workload_kind="Deployment", hpa=None, container=None,
    left_out=(), pods=(), request=None, target=None, threshold=None, average=None,
    predicted_average=None, improvement=None, decision="skip", reason="no_hpa",
    because="there is no HPA", problem=True, evict=(), batches=(), guards=(),
)  # fmt: skip
FRAGMENT = {"x_slackwater_fragment": "1"}


@pytest.fixture
def agent() -> StatedAgent:
    made = StatedAgent(SHOWN, ROWS)
    made.map = CPUS
    made.recording = short_recording()
    return made


@pytest.fixture
def cluster() -> StatedCluster:
    return StatedCluster(STATUS)


def of_agent(agent: StatedAgent) -> ASGIApp:
    return build_application(PageSources(agent=agent), "agent x")


def text_of(answer: Answer) -> str:
    return html.unescape(answer.text)


AGENT_PAGES: Mapping[str, tuple[str, ...]] = {
    "/": ("besteffort", "600m", "caps it at 600m: used 1000m, 1600m allowed", "triggered"),
    "/pods": ("prod/web-", "batch/job", "2 of 2 pods", "it was not read"),
    "/pods?q=batch": ("1 of 2 pods",),
    "/pod?target=batch/job": ("batch/job", "caps it at 600m"),
    "/cpus": ("socket 0, NUMA node 0", "prod/db/main", "R"),
    "/policies": ("best_effort_share", "acting", "quota_burst", "not asked for"),
    "/whatif": ("bestEffortShare.threshold", "recorded ticks"),
    "/whatif?key=bestEffortShare.threshold&value=20": ("ticks would be decided differently",),
    "/whatif?key=bestEffortShare.threshold&value=200": ("must be", "1 % to 100 %"),
    "/whatif?key=nonsense&value=1": ("there is no setting 'nonsense'",),
    "/whatif?key=rule:NodeQOS/x/y&value=1": ("the recording has no rule",),
}


@pytest.mark.parametrize("path", AGENT_PAGES)
def test_pages_of_an_agent(agent: StatedAgent, path: str) -> None:
    found = ask(of_agent(agent), path)
    assert found.status == 200
    assert all(part in text_of(found) for part in AGENT_PAGES[path]), text_of(found)
    assert EVIL not in found.text


@pytest.mark.parametrize("path", ["/", "/pods", "/pod?target=x", "/cpus", "/policies", "/whatif"])
def test_an_agent_that_is_away_is_one_sentence(agent: StatedAgent, path: str) -> None:
    agent.away = AWAY
    found = ask(of_agent(agent), path)
    assert found.status == 503
    assert AWAY in text_of(found)


def test_an_agent_that_goes_leaves_its_last_answer(agent: StatedAgent) -> None:
    now = [0.0]
    watch = AgentWatch(agent, lambda: now[0])
    assert (watch.look().lost, watch.explanation()) == ("", ROWS)
    agent.away, now[0] = AWAY, 10.0
    look = watch.look()
    assert (look.lost, look.overview.tick) == (AWAY, 7)
    assert watch.explanation() == ROWS


CLUSTER_PAGES: Mapping[str, tuple[str, ...]] = {
    "/": ("n1", "problem", "500m", "2000m", "2500m", "NodeQOS/a/cpu triggered", "2 of 2 nodes"),
    "/?q=n2": ("1 of 2 nodes",),
    "/?state=problem&sort=name": ("1 of 2 nodes",),
    "/?state=nonsense&sort=nonsense": ("2 of 2 nodes",),
    "/nodes/n1/": ("the agent of n1 cannot be reached from here", "There is no prediction"),
    "/policies": ("NodeQOS/a", "triggered: n1", "1 rule active on nodes", "1 on"),
    "/rotation": ("Which pods",),
    "/rotation?workload=web&namespace=prod": ("skip: no_hpa", "there is no HPA"),
}


@pytest.mark.parametrize("path", CLUSTER_PAGES)
def test_pages_of_a_cluster(cluster: StatedCluster, path: str) -> None:
    cluster.plans = RotationPlans((PLAN,))
    found = ask(build_application(PageSources(cluster=cluster), "cluster x"), path)
    assert found.status == 200
    assert all(part in text_of(found) for part in CLUSTER_PAGES[path]), text_of(found)
    assert EVIL not in found.text


@pytest.mark.parametrize("sort", ["state", "name", "used", "quota", "rules", "heard"])
def test_every_order_has_every_node(cluster: StatedCluster, sort: str) -> None:
    found = ask(build_application(PageSources(cluster=cluster), "c"), f"/?sort={sort}")
    assert "2 of 2 nodes" in text_of(found)


def test_what_is_planned_for(cluster: StatedCluster) -> None:
    app = build_application(PageSources(cluster=cluster), "c")
    ask(app, "/rotation")
    ask(app, "/rotation?workload=web&namespace=prod")
    assert cluster.planned == [WorkloadQuery("web", "prod")]
    cluster.problem = "Prometheus does not answer"
    found = ask(app, "/rotation?workload=web")
    assert (found.status, "Prometheus does not answer" in text_of(found)) == (200, True)


def test_a_node_of_the_cluster_with_its_agent(cluster: StatedCluster, agent: StatedAgent) -> None:
    cluster.agents["n1"] = agent
    app = build_application(PageSources(cluster=cluster), "c")
    assert "caps it at 600m" in text_of(ask(app, "/nodes/n1/"))
    assert "prod/db/main" in text_of(ask(app, "/nodes/n1/cpus"))
    agent.away = AWAY
    assert ask(app, "/nodes/n1/").status == 200
    cluster.problem = "no right to read predictions"
    assert cluster.problem in text_of(ask(app, "/nodes/n1/"))


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/nodes/nowhere/", "the cluster has no node 'nowhere'"),
        ("/nodes/n2/pods", "the agent of n2 cannot be reached from here"),
        ("/whatif", "this page needs an agent"),
    ],
)
def test_what_a_cluster_does_not_have(cluster: StatedCluster, path: str, sentence: str) -> None:
    found = ask(build_application(PageSources(cluster=cluster), "c"), path)
    assert (found.status, sentence in text_of(found)) == (503, True)


def test_a_cluster_that_is_lost_keeps_what_was_seen(cluster: StatedCluster) -> None:
    cluster.snapshot = ClusterSnapshot(2, STATUS, "connection refused")
    found = text_of(ask(build_application(PageSources(cluster=cluster), "c"), "/"))
    assert "connection refused" in found
    assert "500m" in found


def test_a_recording_alone_is_a_page() -> None:
    app = build_application(PageSources(recording=short_recording(), recording_name="a.jsonl"), "r")
    assert "Recording: a.jsonl" in text_of(ask(app, "/"))
    assert ask(app, "/rotation").status == 503


def test_what_is_not_there_and_what_we_did_not_think_of(
    agent: StatedAgent, caplog: pytest.LogCaptureFixture
) -> None:
    assert ask(of_agent(agent), "/nonsense").status == 404
    assert "There is no such page." in ask(of_agent(agent), "/nonsense").text
    agent.map = msgspec.structs.replace(CPUS, cpus=(1,))
    found = ask(of_agent(agent), "/cpus")
    assert found.status == 500
    assert "slackwater ui failed on this page: AttributeError" in text_of(found)
    assert "Traceback" not in found.text
    assert "Traceback" in caplog.text


def test_an_open_page_gets_the_middle_alone_and_nothing_where_nothing_changed(
    cluster: StatedCluster,
) -> None:
    app = build_application(PageSources(cluster=cluster), "c")
    whole, middle = ask(app, "/"), ask(app, "/", **FRAGMENT)
    assert "<html" in whole.text
    assert "<html" not in middle.text
    tag = middle.headers["etag"]
    same = ask(app, "/", if_none_match=tag, **FRAGMENT)
    assert (same.status, same.text) == (304, "")
    changed = msgspec.structs.replace(STATUS, nodes=STATUS.nodes[:1])
    cluster.snapshot = ClusterSnapshot(2, changed)
    again = ask(app, "/", if_none_match=tag, **FRAGMENT)
    assert (again.status, "1 of 1 nodes" in text_of(again)) == (200, True)


@pytest.mark.parametrize("path", ["/", "/policies", "/nodes/n1/"])
def test_no_page_names_its_own_address(cluster: StatedCluster, path: str) -> None:
    """Links are relative: a saved page does not have the token."""
    found = ask(build_application(PageSources(cluster=cluster), "c"), path).text
    assert 'href="/' not in found
    assert 'src="/' not in found


def test_several_windows_ask_the_agent_once(agent: StatedAgent) -> None:
    watch = AgentWatch(agent, lambda: 5.0)
    for _ in range(4):
        watch.look()
        watch.explanation()
    assert agent.asked == ["overview", "ticks", "explain "]
