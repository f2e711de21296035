"""A cluster's objects: when the agent may begin, what stays, and how old what it knows is."""

import threading

import msgspec
import pytest

from slackwater.contract.kubernetes_pod import MirrorClaim
from slackwater.contract.label_selector import LabelSelector
from slackwater.contract.node_interference import NodeInterference, SeenInterference
from slackwater.contract.node_report import AgentCondition, NodeReport, NodeStatusPatch
from slackwater.contract.volcano.pod import PodConfiguration
from slackwater.model.gap import Gap
from slackwater.model.problem import ConfigurationProblem, DocumentName
from slackwater.model.snapshot import Freshness
from slackwater.model.units import Micros
from slackwater.model.workload import MemoryRatios
from slackwater.observation.objects.cluster_kinds import SeenMap, SeenNode
from slackwater.observation.objects.object_set import Objects
from slackwater.policies.best_effort_share import BestEffortShareSettings
from slackwater.settings.agent_document import Settings
from tests.unit.observation.objects.feeds import (
    CONFIG,
    CONFIG_NAME,
    CUSTOM,
    HERE,
    Cluster,
    broken,
    node,
    pod,
    seen,
    throttling,
)

NAMES = ("pods", "node", "colocation", "settings", *CUSTOM)
STAYS = "nothing is decided yet, and values of an earlier run stay"
STATUS_PATCH = NodeStatusPatch(NodeReport(holding=2), AgentCondition("True", "Acting", "m"))


def read(cluster: Cluster) -> Objects:
    found = cluster.objects.read()
    assert isinstance(found, Objects), found
    return found


def waiting(cluster: Cluster) -> str:
    found = cluster.objects.read()
    assert isinstance(found, Gap)
    return found.reason


def test_everything_heard_is_everything_known() -> None:
    found = read(Cluster().fill())
    assert [each.name for each in found.pods] == ["a", "b"]
    assert found.nodes == (node(),)
    assert found.colocation is not None
    assert (found.settings, found.pod_configurations) == (None, ())
    assert (found.problems, found.warnings) == ((), ())


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_known_before_all_was_heard(name: str) -> None:
    """Part of the truth would switch policies off, and so release what they hold."""
    cluster = Cluster().fill()
    whole = cluster.hand(name).shown
    cluster.hand(name).alter(synced=False, unknown_kind=False, problem="no answer")
    assert waiting(cluster) == f"waiting for {name}: no answer; {STAYS}"
    cluster.hand(name).shown = whole
    assert read(cluster).pods


@pytest.mark.parametrize("name", CUSTOM)
def test_a_kind_that_may_not_be_listed_is_gone_without_and_told(name: str) -> None:
    """As after an upgrade whose role came later: all other work goes on, and it is asked again."""
    cluster = Cluster().fill()
    refused = {"synced": False, "unknown_kind": False, "forbidden": True, "problem": "GET /x: 403"}
    cluster.hand(name).alter(**refused)
    found = read(cluster)
    assert found.pods
    (problem,) = found.problems
    assert problem.reason == "GET /x: 403"
    assert problem.consequence.startswith("the agent goes on without any ")
    assert name not in cluster.objects.freshness(Micros(10))
    cluster.hand(name).put({})
    cluster.hand(name).alter(synced=True, forbidden=False, problem="")
    assert read(cluster).problems == ()


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(CUSTOM)))
def test_what_the_agent_cannot_do_without_is_waited_for(name: str) -> None:
    cluster = Cluster().fill()
    cluster.hand(name).alter(synced=False, forbidden=True, problem="GET /x: 403")
    assert waiting(cluster) == f"waiting for {name}: GET /x: 403; {STAYS}"


def test_what_was_listed_once_stays_when_it_is_forbidden() -> None:
    cluster = Cluster().fill()
    cluster.hand("metrics").alter(synced=True, unknown_kind=False)
    first = read(cluster)
    cluster.hand("metrics").alter(forbidden=True, problem="GET /x: 403")
    assert read(cluster) is first
    assert cluster.objects.freshness(Micros(10))["metrics"].problem == "GET /x: 403"


def test_before_the_first_answer_that_is_said() -> None:
    reason = waiting(Cluster())
    assert reason == f"waiting for {', '.join(NAMES)}: no answer yet; {STAYS}"


ODD = ConfigurationProblem("ConfigMap ns/s: odd")


@pytest.mark.parametrize(
    ("name", "shown", "said"),
    [
        ("node", {}, f"there is no Node {HERE}"),
        ("node", {"other": seen()}, f"there is no Node {HERE}"),
        ("colocation", {CONFIG: broken()}, f"ConfigMap {CONFIG} is 'x', but must be JSON"),
        ("settings", {"ns/s": SeenMap("u", None, ODD)}, "ConfigMap ns/s: odd"),
    ],
)  # fmt: skip
def test_nothing_good_yet_to_begin_with(name: str, shown: dict[str, object], said: str) -> None:
    cluster = Cluster().fill()
    cluster.hand(name).put(shown)
    assert waiting(cluster) == f"{said}; {STAYS}"


def test_a_node_that_cannot_be_read_says_why() -> None:
    cluster = Cluster().fill()
    cluster.hand("node").put({})
    cluster.hand("node").alter(unreadable={HERE: "API server: Node here: status is odd"})
    assert waiting(cluster) == f"API server: Node here: status is odd; {STAYS}"


def test_the_same_object_while_nothing_changed() -> None:
    cluster = Cluster().fill()
    first = read(cluster)
    assert read(cluster) is first
    for name in NAMES:
        cluster.hand(name).alter(heard_at=Micros(99), problem="the server is away")
    assert read(cluster) is first


def test_a_change_of_what_nobody_uses_is_none() -> None:
    """Heartbeats, readiness, our own report: the informer has a new mapping of equal values."""
    cluster = Cluster().fill()
    first = read(cluster)
    cluster.hand("node").put({HERE: seen(status_patch=STATUS_PATCH)})
    cluster.hand("pods").put({f"d/{name}": pod(name) for name in ("a", "b")})
    assert read(cluster) is first
    assert cluster.objects.status_patch() == STATUS_PATCH


def test_a_relist_of_the_same_truth_is_no_news() -> None:
    """The server comes back: no flap."""
    cluster = Cluster().fill()
    first = read(cluster)
    for name in NAMES:
        shown = cluster.hand(name).shown
        cluster.hand(name).shown = msgspec.structs.replace(shown, items=dict(shown.items))
    assert read(cluster) is first


def test_pods_stay_the_same_tuple_while_only_the_node_changes() -> None:
    """Whoever matched pods with groups need not do so again."""
    cluster = Cluster().fill()
    first = read(cluster)
    cluster.hand("node").put({HERE: seen(8000)})
    second = read(cluster)
    assert second is not first
    assert second.pods is first.pods
    assert second.nodes[0].allocatable_cpu == 8000


def test_pods_come_and_go() -> None:
    cluster = Cluster().fill()
    read(cluster)
    cluster.hand("pods").put({"d/b": pod("b"), "d/c": pod("c", labels={"new": "yes"})})
    assert [(each.name, each.labels) for each in read(cluster).pods] == [
        ("b", {}),
        ("c", {"new": "yes"}),
    ]


def test_configuration_changes_while_the_agent_runs() -> None:
    cluster = Cluster().fill()
    before = read(cluster).colocation
    cluster.hand("colocation").put({CONFIG: throttling(50)})
    after = read(cluster).colocation
    assert after is not None
    assert before is not None
    assert after.everywhere != before.everywhere


def test_what_is_broken_says_what_it_said_before() -> None:
    cluster = Cluster().fill()
    before = read(cluster)
    cluster.hand("colocation").put({CONFIG: broken()})
    found = read(cluster)
    assert found.colocation is before.colocation
    said = f"ConfigMap {CONFIG} is 'x', but must be JSON; its last valid content stays in force"
    [problem] = found.problems
    assert (problem.sentence(), problem.about) == (said, CONFIG_NAME)
    cluster.hand("colocation").put({CONFIG: throttling(50)})
    assert read(cluster).problems == ()


def test_what_is_broken_and_said_nothing_before_is_told_without_promises() -> None:
    cluster = Cluster().fill()
    cluster.hand("colocation").put({})
    assert read(cluster).colocation is None
    cluster.hand("colocation").put({CONFIG: broken()})
    found = read(cluster)
    assert found.colocation is None
    [problem] = found.problems
    assert problem.sentence() == f"ConfigMap {CONFIG} is 'x', but must be JSON"


def test_a_config_map_that_is_gone_says_nothing() -> None:
    """Who deletes the configuration wants it gone."""
    cluster = Cluster().fill()
    own = Settings(policies={"best_effort_share": BestEffortShareSettings(enabled=True)})
    cluster.hand("settings").put({"ns/s": SeenMap("u", own)})
    assert read(cluster).settings == own
    cluster.hand("settings").put({})
    cluster.hand("colocation").put({})
    found = read(cluster)
    assert (found.settings, found.colocation, found.problems) == (None, None, ())


def test_a_node_that_is_gone_is_as_it_was() -> None:
    cluster = Cluster().fill()
    read(cluster)
    cluster.hand("node").put({})
    found = read(cluster)
    assert found.nodes == (node(),)
    [problem] = found.problems
    assert problem.sentence() == f"the Node {HERE} is gone; its last valid content stays in force"


def test_an_unreadable_pod_is_told_and_the_others_go_on() -> None:
    cluster = Cluster().fill()
    read(cluster)
    cluster.hand("pods").alter(unreadable={"d/x": "API server: Pod d/x: metadata.uid is missing"})
    found = read(cluster)
    [problem] = found.problems
    assert problem.sentence() == "API server: Pod d/x: metadata.uid is missing"
    assert problem.about == DocumentName("API server", "Pod", "d", "x")
    assert len(found.pods) == 2


def test_an_unreadable_pod_qos_allows_nothing() -> None:
    cluster = Cluster().fill()
    cluster.hand("pod_qos").alter(unreadable={"batch": "API server: PodQOS batch: spec is odd"})
    [stand_in] = read(cluster).ensurance.pod_qos
    assert (stand_in.metadata.name, stand_in.spec.allowed_actions) == ("batch", ())


def configuration(high: int) -> PodConfiguration:
    return PodConfiguration("d", "c", "", LabelSelector(), MemoryRatios(high))


def test_ratios_reach_the_pods() -> None:
    cluster = Cluster().fill()
    cluster.hand("pod_configurations").put({"d/c": configuration(90)})
    assert {each.memory_ratios for each in read(cluster).pods} == {MemoryRatios(90, 0, 0)}


def test_a_kind_that_is_uninstalled_takes_its_objects_along() -> None:
    cluster = Cluster().fill()
    cluster.hand("pod_configurations").put({"d/c": configuration(90)})
    assert read(cluster).pod_configurations
    cluster.hand("pod_configurations").alter(unknown_kind=True)
    found = read(cluster)
    assert found.pod_configurations == ()
    assert found.pods[0].memory_ratios is None


def test_ages_count_from_the_last_word_and_from_the_start_before_it() -> None:
    cluster = Cluster().fill()
    cluster.hand("pods").put({}, heard_at=40)
    cluster.hand("node").alter(problem="refused")
    cluster.hand("settings").shown = type(cluster.hand("settings").shown)({})
    assert cluster.objects.freshness(Micros(100)) == {
        "pods": Freshness(Micros(60)),
        "node": Freshness(Micros(99), "refused"),
        "colocation": Freshness(Micros(99)),
        "settings": Freshness(Micros(100)),
    }


def test_the_face_is_what_the_node_shows() -> None:
    cluster = Cluster()
    assert cluster.objects.status_patch() is None
    cluster.fill()
    assert cluster.objects.status_patch() is None
    cluster.hand("node").put({HERE: seen(status_patch=STATUS_PATCH)})
    assert cluster.objects.status_patch() == STATUS_PATCH


def test_uids_of_config_maps_are_known_also_of_broken_ones() -> None:
    cluster = Cluster().fill()
    assert cluster.objects.uid_of(CONFIG) == "uid-map"
    cluster.hand("colocation").put({CONFIG: broken()})
    assert cluster.objects.uid_of(CONFIG) == "uid-map"
    assert cluster.objects.uid_of("ns/else") == ""


def test_all_are_started_and_stopped() -> None:
    cluster = Cluster()
    cluster.objects.start()
    cluster.objects.stop()
    assert [cluster.hand(n).started for n in NAMES] == [1] * len(NAMES)
    assert [cluster.hand(n).stopped for n in NAMES] == [1] * len(NAMES)


def test_a_single_decision_waits_until_it_can_be_made() -> None:
    cluster = Cluster()
    timer = threading.Timer(0.1, cluster.fill)
    timer.start()
    cluster.objects.wait(3600)
    timer.join()
    assert read(cluster).pods


def test_a_single_decision_does_not_wait_for_ever() -> None:
    cluster = Cluster()
    cluster.objects.wait(0.01)
    assert waiting(cluster)


def test_interference_is_shown_where_the_node_was_heard() -> None:
    cluster = Cluster()
    assert cluster.objects.interference() is None
    shown = SeenInterference(NodeInterference("NoSchedule"), owns_taint=True)
    cluster.fill().hand("node").put({HERE: SeenNode(node(), None, shown)})
    assert cluster.objects.interference() == shown


STATIC = "0" * 32


@pytest.mark.parametrize(
    ("owner", "uid"), [("uid-here", STATIC), ("another", "uid-etcd"), ("", "uid-etcd")]
)
def test_a_static_pod_is_believed_by_the_nodes_uid(owner: str, uid: str) -> None:
    cluster = Cluster().fill()
    name = f"etcd-{HERE}"
    claim = MirrorClaim(STATIC, HERE, owner)
    static = pod(name, uid="uid-etcd", cgroup_uid="uid-etcd", mirror=claim)
    cluster.hand("pods").put({f"d/{name}": static, "d/a": pod("a")})
    this_node = msgspec.structs.replace(node(), uid="uid-here")
    cluster.hand("node").put({HERE: SeenNode(this_node, None)})
    found = read(cluster)
    assert {each.cgroup_uid for each in found.pods} == {uid, "uid-a"}
    assert len(found.problems) == (0 if uid == STATIC else 1)
    assert read(cluster) is found


def test_a_pod_that_claims_another_is_itself_and_told() -> None:
    cluster = Cluster().fill()
    thief = pod("thief", mirror=MirrorClaim("uid-a", HERE))
    cluster.hand("pods").put({"d/a": pod("a"), "d/thief": thief})
    found = read(cluster)
    assert [each.cgroup_uid for each in found.pods] == ["uid-a", "uid-thief"]
    [problem] = found.problems
    assert problem.about == DocumentName("", "Pod", "d", "thief")
    assert problem.sentence().startswith(
        "Pod d/thief: metadata.annotations['kubernetes.io/config.mirror']"
    )
