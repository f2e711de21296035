"""Quotas that are there at a container's first instruction: a real kubelet, containerd with NRI.

A container tells by its log what it saw first. The tests of this file are one story, told in their
order, with a node whose CPUs are worth 1.2 of the slowest ones.
"""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from slackwater.contract.koordinator.normalization import RATIO_ANNOTATION
from slackwater.settings.agent_settings import DEFAULTS
from tests.cluster.agent_process import ClusterAgent, eventually
from tools.cluster.control_plane import ControlPlane
from tools.cluster.node import BUSYBOX_IMAGE, REST, Node
from tools.cluster.processes import wait_for

HOME = "intercepted"
USER = "admin"
#: Two CPUs, and as many of this node's.
ASKED, GRANTED = 200_000, 166_667
NO_QUOTA = -1
FIRST = "cat /sys/fs/cgroup/cpu*/cpu.cfs_quota_us /sys/fs/cgroup/cpu.max 2>/dev/null | head -n 1"


def pod(name: str, cpu: str = "2", **resources: Any) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": BUSYBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", f"{FIRST}; {REST}"],
        "resources": {"limits": {"cpu": cpu}, "requests": {"cpu": "10m"}, **resources},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": HOME},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }


def number(text: str) -> int:
    """Of a quota's file, whichever version's."""
    word = text.split(maxsplit=1)[0]
    return NO_QUOTA if word == "max" else int(word)


class Sampler:
    """Reads every quota below the kubelet's tree, as fast as it can, from before the start."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self._known = set(self._files())
        self._stopped = threading.Event()
        self.seen: dict[str, list[int]] = {}
        self._thread = threading.Thread(target=self._run)

    def _files(self) -> list[str]:
        return [
            *map(str, self._top.glob("**/cpu.cfs_quota_us")),
            *map(str, self._top.glob("**/cpu.max")),
        ]

    def _run(self) -> None:
        while not self._stopped.is_set():
            for file in set(self._files()) - self._known:
                try:
                    found = number(Path(file).read_text())
                except (OSError, IndexError):  # gone again, or not filled yet
                    continue
                values = self.seen.setdefault(Path(file).parent.name, [])
                if not values or values[-1] != found:
                    values.append(found)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()


class StartStory:
    """Guards the agent beside a node, and what the tests look at."""

    def __init__(self, plane: ControlPlane, node: Node, folder: Path) -> None:
        self.plane, self.node, self.folder = plane, node, folder
        self.agent: ClusterAgent | None = None

    def run_agent(self, *, intercept: bool) -> ClusterAgent:
        self.agent = ClusterAgent(
            self.plane, self.node, self.folder, self.node.name, "--namespace", HOME,
            "--intercept-starts", str(intercept).lower(),
            "--nri-socket", str(self.node.nri_socket), user=USER,
        )  # fmt: skip
        eventually("the endpoint", self.agent.is_listening)
        eventually("a tick", lambda: self.metric("slackwater_last_tick_age_seconds") is not None)
        if intercept:
            self.await_intercepted()
        return self.agent

    def await_intercepted(self) -> None:
        eventually(
            "the runtime to ask", lambda: self.metric("slackwater_container_starts_intercepted")
        )

    def metric(self, name: str) -> float | None:
        assert self.agent is not None
        for line in self.agent.text("/metrics").splitlines():
            if line.startswith(name) and not line.startswith("#"):
                return float(line.rpartition(" ")[2])
        return None

    def start(self, name: str, cpu: str = "2", **resources: Any) -> None:
        self.plane.apply(pod(name, cpu, **resources))
        self.await_ready(name)

    def await_ready(self, name: str) -> None:
        self.plane.kubectl("wait", "-n", HOME, "--for=condition=Ready", "--timeout=600s",
                           f"pod/{name}")  # fmt: skip

    def first_seen(self, name: str) -> int:
        """By the container itself."""
        return number(str(wait_for(f"the log of {name}", lambda: self.log(name))))

    def report(self) -> str:
        """As `slackwater status` reads it."""
        annotations = self.plane.get("node", self.node.name)["metadata"]["annotations"]
        return str(annotations.get("slackwater.io/report", ""))

    def log(self, name: str) -> str:
        return self.plane.kubectl("logs", "-n", HOME, name).strip()

    def quota_file(self, name: str) -> Path:
        found = self.plane.get("pod", name, "-n", HOME)
        box = found["status"]["containerStatuses"][0]["containerID"].partition("//")[2]
        tree = self.node.cgroup("cpu", "kubepods")
        [folder] = tree.glob(f"**/pod{found['metadata']['uid']}/{box}")
        one, other = folder / "cpu.cfs_quota_us", folder / "cpu.max"
        return one if one.exists() else other

    def quota(self, name: str) -> int:
        return number(self.quota_file(name).read_text())

    def await_quota(self, name: str, expected: int) -> None:
        eventually(f"{expected} in {name}", lambda: self.quota(name) == expected)

    def restarts(self, name: str) -> int:
        status = self.plane.get("pod", name, "-n", HOME)["status"]
        return int(status["containerStatuses"][0]["restartCount"])

    def delete(self, *names: str) -> None:
        self.plane.kubectl("delete", "pod", "-n", HOME, *names, "--now", "--ignore-not-found")

    def close(self) -> None:
        if self.agent is not None:
            os.kill(self.agent.pid, signal.SIGCONT)
            self.agent.end()


@pytest.fixture(scope="module")
def story(
    control_plane: ControlPlane, node: Node, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StartStory]:
    control_plane.kubectl("create", "namespace", HOME)
    control_plane.await_service_account(HOME)
    control_plane.kubectl("annotate", "node", node.name, f"{RATIO_ANNOTATION}=1.20")
    made = StartStory(control_plane, node, tmp_path_factory.mktemp("intercepted"))
    try:
        yield made
    finally:
        made.close()
        control_plane.kubectl("annotate", "node", node.name, f"{RATIO_ANNOTATION}-")
        control_plane.kubectl("delete", "namespace", HOME, "--wait=false")


def test_the_first_instruction_has_its_share(story: StartStory) -> None:
    """Also seen from outside, from before the start: without a quota while the runtime makes its
    group, then with the right one; never with the other."""
    agent = story.run_agent(intercept=True)
    with Sampler(story.node.cgroup("cpu", "kubepods")) as sampler:
        whole = {"cpu": "2", "memory": "32Mi"}
        story.start("first", limits=whole, requests=whole)
        assert story.first_seen("first") == GRANTED
    mine = sampler.seen[story.quota_file("first").parent.name]
    assert set(mine) <= {NO_QUOTA, GRANTED}
    assert mine[-1] == GRANTED
    assert story.quota("first") == GRANTED
    said = agent.told("container starts")
    assert said[-1].startswith("NRI: containerd")
    eventually("the report", lambda: "NRI: containerd" in story.report())
    story.delete("first")


def test_a_resize_is_divided_once_and_nobody_fights(story: StartStory) -> None:
    story.start("resized", "1")
    assert story.quota("resized") == 83_334
    patch = '{"spec":{"containers":[{"name":"main","resources":{"limits":{"cpu":"1500m"}}}]}}'
    story.plane.kubectl(
        "patch", "pod", "-n", HOME, "resized", "--subresource", "resize", "-p", patch
    )
    story.await_quota("resized", 125_000)
    ticks = story.metric("slackwater_ticks_total")
    assert ticks is not None
    eventually("ten ticks", lambda: (story.metric("slackwater_ticks_total") or 0) > ticks + 10)
    assert story.quota("resized") == 125_000
    assert story.restarts("resized") == 0
    assert story.metric("slackwater_knobs_yielded") == 0


def test_after_a_restart_of_the_runtime_it_asks_again(story: StartStory) -> None:
    before = story.metric("slackwater_runtime_connections_total") or 0
    story.node.restart_containerd()
    eventually(
        "another connection",
        lambda: (story.metric("slackwater_runtime_connections_total") or 0) > before,
    )
    story.start("after")
    assert story.first_seen("after") == GRANTED
    assert story.quota("resized") == 125_000


def test_containers_start_while_the_agent_hangs(story: StartStory) -> None:
    """The runtime waits two seconds and goes on without it; the agent's next tick does the rest."""
    assert story.agent is not None
    os.kill(story.agent.pid, signal.SIGSTOP)
    try:
        story.start("unasked")
        assert story.first_seen("unasked") == ASKED
    finally:
        os.kill(story.agent.pid, signal.SIGCONT)
    story.await_quota("unasked", GRANTED)
    story.await_intercepted()
    story.start("asked-again")
    assert story.first_seen("asked-again") == GRANTED


def test_containers_start_while_the_agent_is_killed(story: StartStory) -> None:
    assert story.agent is not None
    names = [f"killed-{one}" for one in range(3)]
    story.plane.apply(*(pod(name) for name in names))
    story.agent.kill()
    for name in names:
        story.await_ready(name)
        assert story.first_seen(name) in (ASKED, GRANTED)
    story.run_agent(intercept=True)
    for name in names:
        story.await_quota(name, GRANTED)
        assert story.restarts(name) == 0


def test_without_the_runtimes_question_the_tick_does_it(story: StartStory) -> None:
    assert story.agent is not None
    assert DEFAULTS.intercept_starts is False
    story.agent.end()
    agent = story.run_agent(intercept=False)
    story.start("reconciled")
    story.await_quota("reconciled", GRANTED)
    assert story.metric("slackwater_container_starts_intercepted") == 0
    remarks = [each for row in agent.get("/v1/explain") for each in row.get("remarks", [])]
    assert any("reconcile alone: agent.interceptStarts is false" in each for each in remarks)


def test_a_container_starts_again_within_its_pods_own_limit(story: StartStory) -> None:
    """The kubelet starts a container that states no limit with the pod's, whole."""
    shared = pod("shared")
    del shared["spec"]["containers"][0]["resources"]
    shared["spec"]["resources"] = {"limits": {"cpu": "2"}, "requests": {"cpu": "10m"}}
    story.plane.apply(shared)
    story.await_ready("shared")
    story.await_quota("shared", GRANTED)
    for number in (story.quota_file("shared").with_name("cgroup.procs")).read_text().split():
        os.kill(int(number), signal.SIGKILL)
    eventually("its restart", lambda: story.restarts("shared") == 1)
    story.await_ready("shared")
    assert story.first_seen("shared") == ASKED
    story.await_quota("shared", GRANTED)


def test_a_release_gives_the_kubelets_quotas_back(story: StartStory) -> None:
    """Those of containers that never had them as well."""
    story.plane.kubectl(
        "annotate", "node", story.node.name, f"{RATIO_ANNOTATION}=1.00", "--overwrite"
    )
    expected = {"resized": 150_000, "after": ASKED, "asked-again": ASKED, "reconciled": ASKED}
    expected["shared"] = ASKED
    for name, quota in expected.items():
        story.await_quota(name, quota)
