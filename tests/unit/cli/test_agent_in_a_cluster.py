"""`slackwater agent` without --standalone: no cluster, one that is away, one that answers."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slackwater.observation.host import Roots
from tests.unit.doctor.host_tree import group, host, put
from tests.unit.kube.byte_server import Request, Wire, serving

pytestmark = pytest.mark.long

CONFIG = {"cpuThrottlingConfig": {"enable": True, "cpuThrottlingThreshold": 80}}
LABEL = {"volcano.sh/oversubscription": "true"}


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    made = host(tmp_path)
    put(Path(made.proc) / "sys/kernel/random/boot_id", "this-boot\n")
    for path in ("kubepods", "kubepods/besteffort"):
        group(made, path)
    return made


def kubeconfig(top: Path, port: int) -> str:
    cluster = {"server": f"http://127.0.0.1:{port}"}
    told = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = top / "kubeconfig"
    path.write_text(json.dumps(told))
    return str(path)


#: As `python -m slackwater`, with a patience of the test's own for the cluster's first objects.
PROGRAM = """
import os
from slackwater.agent import launch
launch._OBJECTS_SECONDS = float(os.environ.get("PATIENCE", "300"))
from slackwater.__main__ import run
run()
"""


def started(roots: Roots, *arguments: str, **environ: str) -> subprocess.Popen[str]:
    top = Path(roots.host).parent
    place = ("--cgroup-root", roots.cgroup, "--proc-root", roots.proc, "--sys-root", roots.sys,
             "--host-root", roots.host, "--state", f"{top}/state")  # fmt: skip
    words = ("SLACKWATER_", "CGROUP_", "KUBE", "NODE_NAME", "POD_")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(words)}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "agent", *place, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=top,
        env=clean | {"SLACKWATER_CGROUP_VERSION": "v2", "HOME": str(top)} | environ,
    )


def done(process: subprocess.Popen[str]) -> tuple[int, list[dict[str, Any]], str]:
    output, errors = process.communicate()
    assert "Traceback" not in errors
    return process.returncode, [json.loads(line) for line in output.splitlines()], errors


class Api:
    """An API server's lists, and watches that say nothing."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def answer(self, request: Request, wire: Wire) -> None:
        self.requests.append(request)
        if request.method != "GET":
            wire.json({})
        elif request.query.get("watch"):
            wire.begin_chunks()
            wire.closing.wait()
        elif "colocationconfigurations" in request.path:
            wire.json({"kind": "Status", "code": 404, "reason": "NotFound"}, 404)
        else:
            items = self.items(request)
            wire.json({"kind": "List", "metadata": {"resourceVersion": "5"}, "items": items})

    def items(self, request: Request) -> list[object]:
        if request.path == "/api/v1/nodes":
            metadata = {"name": "here", "labels": LABEL}
            return [{"metadata": metadata, "status": {"allocatable": {"cpu": "4"}}}]
        if "volcano-agent-configuration" in request.query.get("fieldSelector", ""):
            data = {"colocation-config": json.dumps({"globalConfig": CONFIG})}
            name = {"name": "volcano-agent-configuration", "namespace": "volcano-system"}
            return [{"metadata": name, "data": data}]
        return []


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.mark.parametrize(
    ("arguments", "environ", "said"),
    [
        ((), {}, "--standalone DIR"),
        (("--kubeconfig", "nowhere"), {}, "nowhere"),
        ((), {"KUBECONFIG": "nowhere"}, "nowhere"),
        ((), {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"},
         "--standalone DIR"),
    ],
)  # fmt: skip
def test_no_cluster_is_one_sentence(
    roots: Roots, arguments: tuple[str, ...], environ: dict[str, str], said: str
) -> None:
    code, lines, errors = done(started(roots, *arguments, **environ))
    assert (code, lines) == (2, [])
    assert said in errors
    assert errors.count("\n") == 1


def test_a_wrong_flag_is_wrong_usage_though_the_cluster_is_away(roots: Roots) -> None:
    config = kubeconfig(Path(roots.host).parent, 1)
    flags = ("--kubeconfig", config, "--listen", "", "--best-effort-share-threshold", "400")
    code, _, errors = done(started(roots, *flags))
    assert code == 2
    assert "bestEffortShare.threshold (--best-effort-share-threshold or " in errors
    assert ") is 400, but must be" in errors


def test_one_decision_with_the_cluster_away_did_not_work(roots: Roots) -> None:
    config = kubeconfig(Path(roots.host).parent, 1)
    flags = ("--kubeconfig", config, "--once", "--node", "here")
    code, lines, _ = done(started(roots, *flags, PATIENCE="0.1"))
    assert code == 1
    # Once before any attempt failed, perhaps, and once after.
    reasons = [each["because"] for each in lines if each["what"] == "cluster"]
    assert reasons
    for reason in reasons:
        assert reason.startswith("waiting for pods, node, colocation, settings")


def test_one_decision_with_what_the_cluster_says(roots: Roots, api: Api) -> None:
    """Volcano's own variables: its namespace, its node's name."""
    with serving(api.answer) as server:
        config = kubeconfig(Path(roots.host).parent, server.port)
        volcano = {"KUBE_POD_NAMESPACE": "volcano-system", "KUBE_NODE_NAME": "here"}
        code, lines, _ = done(started(roots, "--kubeconfig", config, "--once", **volcano))
    assert [each["because"] for each in lines if each["what"] == "cluster"] == []
    told = {each["what"] for each in lines}
    assert code == 0, lines
    assert told & {"best_effort_share", "NodeCPUThrottleEvent", "survey"}, told
    paths = {one.path for one in api.requests}
    assert "/api/v1/namespaces/volcano-system/configmaps" in paths


@pytest.mark.parametrize(("on_exit", "words"), [("release", ["Released"]), ("keep", [])])
def test_the_last_words_of_who_releases(
    roots: Roots, api: Api, on_exit: str, words: list[str]
) -> None:
    """One decision is over before the first report is due: all that is written are last words."""
    with serving(api.answer) as server:
        config = kubeconfig(Path(roots.host).parent, server.port)
        flags = ("--kubeconfig", config, "--once", "--node", "here", "--on-exit", on_exit)
        code, lines, _ = done(started(roots, *flags, KUBE_POD_NAMESPACE="volcano-system"))
    assert code == 0, lines
    bodies = [
        json.loads(one.body) for one in api.requests if one.path == "/api/v1/nodes/here/status"
    ]
    conditions = [body["status"]["conditions"][0] for body in bodies]
    assert [each["reason"] for each in conditions if each["reason"] == "Released"] == words
    for body in bodies[-1:] if words else ():
        report = json.loads(body["metadata"]["annotations"]["slackwater.io/report"])
        assert report["holding"] == 0


def test_two_namespaces(roots: Roots, api: Api) -> None:
    with serving(api.answer) as server:
        config = kubeconfig(Path(roots.host).parent, server.port)
        both = {"KUBE_POD_NAMESPACE": "volcano-system", "POD_NAMESPACE": "mine"}
        flags = ("--kubeconfig", config, "--once", "--dry-run", "--node", "here")
        code, _, _ = done(started(roots, *flags, **both))
    assert code == 0
    asked = {(one.path, one.query.get("fieldSelector")) for one in api.requests}
    volcano = "metadata.name=volcano-agent-configuration"
    assert ("/api/v1/namespaces/volcano-system/configmaps", volcano) in asked
    assert ("/api/v1/namespaces/mine/configmaps", "metadata.name=slackwater-agent") in asked
    assert {one.method for one in api.requests} == {"GET"}


def test_the_end_does_not_wait_for_a_server_that_hangs(roots: Roots) -> None:
    def hang(_request: Request, wire: Wire) -> None:
        wire.closing.wait()

    with serving(hang) as server:
        config = kubeconfig(Path(roots.host).parent, server.port)
        flags = ("--kubeconfig", config, "--listen", "", "--node", "here")
        process = started(roots, *flags)
        assert process.stdout is not None
        assert "kubelet's tree" in process.stdout.readline()
        assert "listening on unix:" in process.stdout.readline()
        assert "waiting for" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        code, _, _ = done(process)
    assert code == 0


class WithPod(Api):
    """The same, with one pod on the node."""

    def items(self, request: Request) -> list[object]:
        if request.path != "/api/v1/pods":
            return super().items(request)
        head = {"name": "web", "namespace": "shop", "uid": "aaaa-1"}
        containers = [{"name": "one", "resources": {}}]
        return [{"metadata": head, "spec": {"nodeName": "here", "containers": containers}}]


def test_a_tree_without_the_nodes_pods_is_left_alone(roots: Roots) -> None:
    """They are in another one: every clue was wrong."""
    group(roots, "right/kubepods/besteffort/podaaaa-1")
    quota = Path(roots.cgroup) / "kubepods/besteffort/cpu.max"
    before = quota.read_text()
    with serving(WithPod().answer) as server:
        config = kubeconfig(Path(roots.host).parent, server.port)
        flags = ("--kubeconfig", config, "--once", "--node", "here", "--kubepods")
        where = {"KUBE_POD_NAMESPACE": "volcano-system"}
        wrong, lines, _ = done(started(roots, *flags, "kubepods", **where))
        right, _, _ = done(started(roots, *flags, "right/kubepods", **where))
    told = [each["because"] for each in lines if each["what"] == "survey"]
    assert (wrong, right) == (1, 0)
    assert told[0].startswith("kubepods has none of this node's 1 pods, and right/kubepods has 1: ")
    assert quota.read_text() == before


def test_a_value_of_ours_over_volcanos_is_told(roots: Roots, api: Api) -> None:
    with serving(api.answer) as server:
        config = kubeconfig(Path(roots.host).parent, server.port)
        ours = ("--best-effort-share-enabled", "true", "--best-effort-share-threshold", "60")
        flags = ("--kubeconfig", config, "--once", "--dry-run", "--node", "here", *ours)
        _, lines, _ = done(started(roots, *flags, KUBE_POD_NAMESPACE="volcano-system"))
    [line] = [each["because"] for each in lines if each["what"] == "configuration"]
    overruled = "bestEffortShare.threshold is 60 by our settings; cpuThrottlingConfig's 80 does not"
    assert line == f"{overruled} count"
