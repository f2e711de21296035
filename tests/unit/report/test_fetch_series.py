"""What is read of Prometheus: nodes by their names, pods, our own metrics; and what is refused."""

from collections.abc import Mapping

import pytest

from slackwater.http.prometheus_client import PrometheusClient, PrometheusError
from slackwater.model.gap import Gap
from slackwater.report.fetch_objects import ListedNode, ListedObjects
from slackwater.report.fetch_series import ClusterSeries, SeriesReader
from slackwater.report.report_queries import MOST_VALUES
from tests.unit.http.prometheus_world import clear_proxies, settings_for
from tests.unit.kube.byte_server import ByteServer
from tests.unit.report.served_prometheus import (
    Answers,
    asked,
    queries_of,
    served_prometheus,
    size_of,
)

DAY, NOW = 86_400.0, 1_795_046_523.0
UNKNOWN = ListedObjects(Gap("no"), Gap("no"))
CPUS = "count by (instance) (count by (instance, cpu)"
USED = "- sum by (instance)"


@pytest.fixture(autouse=True)
def _without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    clear_proxies(monkeypatch)


def there(*nodes: ListedNode) -> ListedObjects:
    return ListedObjects(nodes, ())


def instances(**used: float) -> Answers:
    """Nodes of four CPUs; a dot of a name stands as two underscores."""
    named = {name.replace("__", "."): cores for name, cores in used.items()}
    return {
        USED: [({"instance": f"{name}:9100"}, lambda _, cores=cores: cores)  # type: ignore[misc]
               for name, cores in named.items()],
        CPUS: [({"instance": f"{name}:9100"}, lambda _: 4.0) for name in named],
    }  # fmt: skip


def read(
    answers: Answers,
    objects: ListedObjects = UNKNOWN,
    days: float = 1,
    refused: Mapping[str, str] = {},
    matchers: tuple[tuple[str, str], ...] = (),
) -> tuple[ClusterSeries, ByteServer]:
    with served_prometheus(answers, refused) as server:
        client = PrometheusClient(settings_for(server.port, retries=0))
        found = SeriesReader(client, matchers, NOW).collect(days * DAY, objects)
    return found, server


def test_nodes_by_name_and_by_address() -> None:
    answers = instances(a=1.0, **{"10__0__0__2": 2.0})
    found, _ = read(answers, there(ListedNode("a"), ListedNode("b", ("10.0.0.2",))))
    assert [(each.node, each.cpus, each.values[0]) for each in found.nodes] == [
        ("a", 4.0, 1.0), ("b", 4.0, 2.0)
    ]  # fmt: skip
    assert found.period.end % found.period.step == 0
    assert NOW - found.period.end < found.period.step
    first, last = found.nodes[0].times[0], found.nodes[0].times[-1]
    assert (first, last) == (found.period.start + 300, found.period.end)
    assert len(found.nodes[0].times) == 288


def test_nodes_by_what_uname_says() -> None:
    answers = dict(instances(**{"192__0__2__7": 1.0}))
    uname = {"instance": "192.0.2.7:9100", "nodename": "a"}
    answers["node_uname_info"] = [(uname, lambda _: 1.0)]
    found, _ = read(answers, there(ListedNode("a")))
    assert [each.node for each in found.nodes] == ["a"]


def test_machines_that_are_no_nodes_are_left_out_and_told() -> None:
    found, _ = read(instances(a=1.0, bastion=2.0), there(ListedNode("a")))
    assert [each.node for each in found.nodes] == ["a"]
    assert found.notes[0] == (
        "1 of 2 instances of the node exporter are no nodes of this cluster, and are left out"
    )


def test_without_rights_every_instance_is_a_node() -> None:
    found, _ = read(instances(a=1.0, b=2.0))
    assert [each.node for each in found.nodes] == ["a", "b"]


def test_many_nodes_are_asked_for_in_parts() -> None:
    names = {f"n{place}": 1.0 for place in range(400)}
    found, server = read(instances(**names), days=2)
    ranges = [asked(each) for each in server.requests if each.path.endswith("_range")]
    of_nodes = [each for each in ranges if USED in each["query"]]
    assert len(of_nodes) == 3
    assert all(size_of(each) * 400 <= MOST_VALUES for each in of_nodes)
    assert len(found.nodes) == 400
    assert {len(each.times) for each in found.nodes} == {576}
    assert found.nodes[0].times == sorted(set(found.nodes[0].times))


def test_queries_are_few() -> None:
    _, server = read(instances(a=1.0), days=60)
    assert len(server.requests) < 10


def test_pods_are_looked_at_now_and_then() -> None:
    answers = dict(instances(a=1.0))
    answers["count(count by (namespace, pod)"] = [({}, lambda _: 2.0)]
    pods = ({"namespace": "shop", "pod": "x"}, {"namespace": "shop", "pod": "y"})
    answers["sum by (namespace, pod)"] = [(each, lambda _: 0.5) for each in pods]
    found, _ = read(answers)
    assert [(each.namespace, each.pod, len(each.values)) for each in found.pods] == [
        ("shop", "x", 24), ("shop", "y", 24)
    ]  # fmt: skip
    assert found.notes == ()


def test_without_cadvisor_nothing_is_said_about_workloads() -> None:
    found, _ = read(instances(a=1.0))
    assert found.pods == ()
    [note] = found.notes
    assert note.startswith("Prometheus has no series of container_cpu_usage_seconds_total (the ")
    assert note.endswith("so nothing is said about workloads")


def test_without_a_node_exporter_there_are_no_nodes() -> None:
    found, _ = read({})
    assert (found.nodes, found.pods, found.own) == ((), (), None)


def test_our_own_metrics() -> None:
    answers = dict(instances(a=1.0))
    answers |= {
        "count(slackwater_node_cpu": [({}, lambda _: 3.0)],
        "slackwater_policy_ticks": [({"policy": "p", "course": "acted"}, lambda _: 10.0)],
        "slackwater_policy_enabled": [({"policy": "p"}, lambda _: 2.0)],
        "slackwater_tier_cpu": [({}, lambda _: 1.5)],
        "slackwater_ticks_total": [({}, lambda _: 100.0)],
        "slackwater_knob_changes": [({}, lambda at: float("nan") if at < NOW - DAY / 2 else 1.0)],
    }
    own = read(answers)[0].own
    assert own is not None
    assert (own.agents, own.policies) == (3.0, {"p": 2.0})
    assert own.ticks == {("p", "acted"): 240.0}
    assert own.means == {"best_effort": 1.5, "ticks": 100.0, "changes": 1.0}
    assert own.totals["changes"] == pytest.approx(12, abs=1)
    assert own.totals["evictions"] == 0.0


def test_the_first_refusal_is_the_end() -> None:
    with pytest.raises(PrometheusError, match="query timed out"):
        read({}, refused={CPUS: "query timed out"})


def test_a_later_refusal_is_a_note() -> None:
    answers = dict(instances(a=1.0))
    answers["count(count by (namespace, pod)"] = [({}, lambda _: 2.0)]
    told = "query processing would load too many samples into memory"
    refused = {"sum by (namespace, pod)": told, "slackwater_node_cpu": told}
    found, _ = read(answers, refused=refused)
    assert found.nodes
    assert [each.partition(" could not be asked for: ")[0] for each in found.notes] == [
        "pods", "Slackwater's metrics"
    ]  # fmt: skip
    assert all(told in each for each in found.notes)


def test_matchers_are_sent() -> None:
    _, server = read(instances(a=1.0), matchers=(("cluster", "eu"),))
    assert all('cluster="eu"' in each for each in queries_of(server))
