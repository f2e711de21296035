"""`slackwater status` and `slackwater manager` as commands: answers, refusals, exit codes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
import yaml

from slackwater.contract.node_report import NodeReport
from tests.unit.cli.served import Reply, Served, served, slackwater

pytestmark = pytest.mark.long

ENSURANCE = "/apis/ensurance.crane.io/v1alpha1"
METRICS = "/apis/slackwater.io/v1alpha1/ensurancemetrics"
POLICIES = ("avoidanceactions", "nodeqoss", "nodeqosensurancepolicies", "podqoss")
LEASE = "/apis/coordination.k8s.io/v1/namespaces/slackwater-system/leases/slackwater-manager"


def node(name: str, report: str | None) -> dict[str, Any]:
    annotations = {} if report is None else {"slackwater.io/report": report}
    return {
        "metadata": {"name": name, "annotations": annotations},
        "status": {"allocatable": {"cpu": "4"}},
    }


def agent_pod(on: str) -> dict[str, Any]:
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "metadata": {"name": f"agent-{on}", "namespace": "slackwater-system"},
        "spec": {"nodeName": on},
        "status": {"conditions": ready},
    }


def listing(*items: Any) -> dict[str, Any]:
    return {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": list(items)}


GOOD = NodeReport(version="0.1.0").text()
EMPTY: dict[str, Any] = {f"{ENSURANCE}/{plural}": listing() for plural in POLICIES} | {
    METRICS: listing(),
    "/api/v1/pods": listing(agent_pod("n1")),
    "/api/v1/nodes": listing(node("n1", GOOD)),
}


def refusal(status: int, reason: str) -> tuple[int, bytes]:
    said = {
        "kind": "Status",
        "status": "Failure",
        "reason": reason,
        "message": "no",
        "code": status,
    }
    return status, msgspec.json.encode(said)


def cluster(**changed: Any) -> Reply:
    """An API server of lists; what is not there is not found."""
    there = {**EMPTY, **changed}

    def reply(target: str) -> tuple[int, bytes]:
        found = there.get(urlsplit(target).path)
        if found is None:
            return refusal(404, "NotFound")
        return found if isinstance(found, tuple) else (200, msgspec.json.encode(found))

    return reply


def kubeconfig(folder: Path, server: str) -> str:
    file = folder / "config"
    file.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": server}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
            }
        )
    )
    return str(file)


Status = Callable[..., tuple[int, str, str]]


@pytest.fixture
def status(tmp_path: Path) -> Status:
    def ask(reply: Reply, *arguments: str) -> tuple[int, str, str]:
        with served(reply) as server:
            file = kubeconfig(tmp_path, f"http://{server.address}")
            done = slackwater("status", "--kubeconfig", file, *arguments)
        return done.returncode, done.stdout, done.stderr

    return ask


def test_all_is_well(status: Status) -> None:
    code, out, err = status(cluster())
    assert (code, err) == (0, "")
    assert "nodes 1, 1 with a report" in out
    assert out.endswith("No problem found.\n")


def test_a_report_that_is_wrong_is_a_sentence_and_a_problem(status: Status) -> None:
    nodes = listing(node("n1", GOOD), node("n2", '{"holding": -1}'))
    code, out, err = status(cluster(**{"/api/v1/nodes": nodes}))
    assert (code, err) == (1, "")
    assert "its report cannot be read: slackwater.io/report: holding is -1" in out
    assert out.index("n2") < out.index("n1")


@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_for_scripts(status: Status, form: str, read: Callable[[str], Any]) -> None:
    code, out, _ = status(cluster(), "-o", form)
    found = read(out)
    assert code == 0
    assert (found["apiVersion"], found["kind"]) == ("slackwater.io/v1", "ClusterStatus")
    assert found["nodes"][0]["version"] == "0.1.0"


def test_what_is_not_allowed_is_a_note(status: Status) -> None:
    forbidden = refusal(403, "Forbidden")
    changed = {"/api/v1/pods": forbidden, LEASE: forbidden, f"{ENSURANCE}/podqoss": forbidden}
    code, out, err = status(cluster(**changed))
    assert (code, err) == (0, "")
    assert "PodQOS is not shown: " in out
    assert "whether agents run is not known: " in out
    assert "whether a manager runs is not known: " in out


def test_what_cannot_be_read_is_a_note_and_the_others_are_shown(status: Status) -> None:
    odd = {"metadata": {"name": "odd", "labels": 7}}
    changed = {
        "/api/v1/nodes": listing(odd, node("n1", GOOD)),
        "/api/v1/pods": listing(odd, agent_pod("n1")),
        f"{ENSURANCE}/nodeqoss": listing(odd),
        LEASE: {"spec": []},
    }
    code, out, err = status(cluster(**changed))
    assert (code, err) == (0, "")
    assert "nodes 1, 1 with a report" in out
    for kind in ("Node", "Pod", "NodeQOS"):
        assert f"{kind} is not shown: one or more of them cannot be read: Expected" in out
    assert "the lease slackwater-manager cannot be read" in out


def test_kinds_that_are_not_installed_are_a_problem(status: Status) -> None:
    missing: dict[str, Any] = {f"{ENSURANCE}/{plural}": None for plural in POLICIES}
    code, out, _ = status(cluster(**missing))
    assert code == 1
    assert "the cluster does not know the kinds AvoidanceAction, NodeQOS" in out
    assert "slackwater install --print --definitions |" in " ".join(out.split())


def test_a_report_without_an_agents_pod_is_a_problem(status: Status) -> None:
    code, out, err = status(cluster(**{"/api/v1/pods": listing()}))
    assert (code, err) == (1, "")
    assert "n1    gone " in out
    assert "its agent is gone" in out
    assert out.endswith("1 problem found.\n")


def test_the_lease_is_looked_for_in_the_namespace(tmp_path: Path) -> None:
    with served(cluster()) as server:
        file = kubeconfig(tmp_path, f"http://{server.address}")
        slackwater("status", "--kubeconfig", file, "-n", "elsewhere")
        assert _asked(server, "leases") == [LEASE.replace("slackwater-system", "elsewhere")]


def test_only_the_agents_pods_are_listed(tmp_path: Path) -> None:
    with served(cluster()) as server:
        slackwater("status", KUBECONFIG=kubeconfig(tmp_path, f"http://{server.address}"))
        [asked] = _asked(server, "/pods")
    assert "labelSelector=app.kubernetes.io" in asked


def _asked(server: Served, word: str) -> list[str]:
    return [target for target in server.asked if word in target]


def test_without_the_nodes_there_is_one_sentence(status: Status) -> None:
    code, out, err = status(cluster(**{"/api/v1/nodes": refusal(403, "Forbidden")}))
    assert (code, out) == (1, "")
    assert err.startswith("slackwater: GET /api/v1/nodes")
    assert err.count("\n") == 1


@pytest.mark.parametrize("answer", [(200, b"<html>"), (200, b"{}"), (500, b"oops"), (200, b"")])
def test_what_is_no_api_server_is_one_sentence(status: Status, answer: tuple[int, bytes]) -> None:
    code, _, err = status(lambda _: answer)
    assert code == 1
    assert "Traceback" not in err
    assert err.count("\n") <= 1


def test_nobody_answers(tmp_path: Path) -> None:
    done = slackwater("status", "--kubeconfig", kubeconfig(tmp_path, "http://127.0.0.1:1"))
    assert done.returncode == 1
    assert done.stderr.startswith("slackwater: ")
    assert "127.0.0.1:1" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["status", "manager"])
def test_a_file_that_was_named_must_be_there(command: str, tmp_path: Path) -> None:
    done = slackwater(command, "--kubeconfig", str(tmp_path / "gone"))
    assert done.returncode == 2
    assert done.stderr == f"slackwater: --kubeconfig: {tmp_path / 'gone'} is not there\n"


@pytest.mark.parametrize(("variable", "code"), [("SLACKWATER_KUBECONFIG", 2), ("KUBECONFIG", 1)])
def test_the_variable_that_named_it_is_told(variable: str, code: int, tmp_path: Path) -> None:
    done = slackwater("status", **{variable: str(tmp_path / "gone")})
    assert done.returncode == code
    assert done.stderr == f"slackwater: {variable}: {tmp_path / 'gone'} is not there\n"


@pytest.mark.parametrize("command", ["status", "manager"])
def test_a_context_that_was_named_must_be_there(command: str, tmp_path: Path) -> None:
    file = kubeconfig(tmp_path, "http://127.0.0.1:1")
    done = slackwater(command, "--kubeconfig", file, "--context", "nope")
    assert done.returncode == 2
    assert done.stderr.startswith("slackwater: --context is 'nope', but must be one of ")


@pytest.mark.parametrize("command", ["status", "manager"])
def test_where_nothing_says_which_cluster(command: str, tmp_path: Path) -> None:
    done = slackwater(command, HOME=str(tmp_path), KUBECONFIG="")
    assert done.returncode == 1
    assert done.stderr.startswith("slackwater: ")
    assert done.stderr.count("\n") == 1


def test_wrong_usage() -> None:
    assert slackwater("status", "-o", "xml").returncode == 2
    assert slackwater("status", "extra").returncode == 2
    wrong = slackwater("manager", "--listen", "nowhere")
    assert wrong.returncode == 2
    assert "the address to listen on is 'nowhere'" in wrong.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("status", "-n", "Foo_"), "--namespace is 'Foo_', but must be a DNS label such as"),
        (("manager", "-n", "A_B"), "--namespace is 'A_B', but must be a DNS label such as"),
        (("manager", "--namespace", "a.b"), "--namespace is 'a.b', but must be a DNS label"),
        (("manager", "--lease-name", "A_B"), "--lease-name is 'A_B', but must be a DNS name such"),
        (("manager", "--lease-name", "a..b"), "--lease-name is 'a..b', but must be a DNS name"),
        (("manager", "--lease-name", "a." * 130 + "a"), "but must be a DNS name"),
        (("manager", "--lease-name", ""), "--lease-name is '', but must be a DNS name"),
    ],
)
def test_a_name_that_no_object_can_have(arguments: tuple[str, ...], sentence: str) -> None:
    done = slackwater(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_name_from_a_variable_is_checked_too() -> None:
    done = slackwater("status", SLACKWATER_NAMESPACE="Foo_")
    assert done.returncode == 2
    assert "--namespace is 'Foo_'" in done.stderr


def test_an_address_that_is_taken(tmp_path: Path) -> None:
    with served(cluster()) as server:
        file = kubeconfig(tmp_path, f"http://{server.address}")
        done = slackwater("manager", "--kubeconfig", file, "--listen", server.address)
    assert done.returncode == 1
    assert f"cannot listen on {server.address}" in done.stderr


def test_every_flag_is_a_variable() -> None:
    shown = slackwater("manager", "--help").stdout
    for variable in (
        "SLACKWATER_KUBECONFIG", "SLACKWATER_CONTEXT", "SLACKWATER_NAMESPACE", "POD_NAMESPACE",
        "SLACKWATER_LISTEN", "SLACKWATER_LEASE_NAME", "SLACKWATER_IDENTITY", "POD_NAME",
    ):  # fmt: skip
        assert variable in shown


MODEL_PATH = "/api/v1/namespaces/koordinator-system/configmaps/slo-controller-config"
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies"
RATIO = "node.koordinator.sh/cpu-normalization-ratio"


def model(text: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "slo-controller-config", "namespace": "koordinator-system"},
        "data": {"cpu-normalization-config": text},
    }


def normalized(ratio: str) -> dict[str, Any]:
    found = node("n1", GOOD)
    found["metadata"]["annotations"] |= {
        RATIO: ratio,
        "node.koordinator.sh/resource-amplification-ratio": f'{{"cpu":{ratio}}}',
    }
    return found


def test_nodes_are_counted_by_their_ratio(status: Status) -> None:
    world = {MODEL_PATH: model('{"enable": true, "defaultRatio": 1.35}')}
    code, out, _ = status(cluster(**world, **{"/api/v1/nodes": listing(normalized("1.35"))}))
    assert code == 0
    source = "ConfigMap koordinator-system/slo-controller-config"
    assert f"normalization 1 node at 1.35  {source}" in out


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"defaultRatio": 0.82}', "defaultRatio is 0.82, but must be a number from 1.00 to 5.00"),
        ('{"enable": true}', "node n1: there is no NodeResourceTopology n1"),
        (
            '{"enable": true, "defaultRatio": 1.2}',
            (
                f"node n1: its annotation {RATIO} is '1.35' and should be '1.20'; `slackwater "
                "normalize plan` says why"
            ),
        ),
    ],
)
def test_what_is_wrong_with_normalization_is_a_problem(
    status: Status, text: str, sentence: str
) -> None:
    world = {MODEL_PATH: model(text), "/api/v1/nodes": listing(normalized("1.35"))}
    code, out, _ = status(cluster(**world, **{TOPOLOGIES: listing()}))
    assert code == 1
    assert sentence in " ".join(out.split())
    assert "1 problem found." in out


def test_a_model_that_may_not_be_read_is_noted(status: Status) -> None:
    code, out, _ = status(cluster(**{MODEL_PATH: refusal(403, "Forbidden")}))
    assert code == 0
    source = "ConfigMap koordinator-system/slo-controller-config"
    assert f"{source} is not shown" in " ".join(out.split())
    assert "normalization" not in out.partition(source)[0]
