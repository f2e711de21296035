"""The best-effort tier's quota stands, whatever a real kubelet and a real systemd write.

One long observation for each way to write it: the quota is sampled from the first value to the
last, while pods come, the kubelet restarts, systemd reloads, and the kubelet's own ticks pass. The
kubelet's minute cannot be shortened, so all else is done while one passes.
"""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kubelet import node_files
from tests.kubelet.node import KUBELET_TICK_SECONDS, Node
from tests.kubelet.standalone import TICK_SECONDS, Standalone
from tests.kubelet.watch import SAMPLE_SECONDS, Span, Watch, longest_pause, unlimited_spans

#: Some of the kubelet's minutes, and an emulated machine's start of everything.
pytestmark = pytest.mark.timeout(3600)

REPAIRED_WITHIN_SECONDS = 2 * TICK_SECONDS
#: Nothing is proved by a watch with longer pauses; a busy host makes some of a few seconds.
STANDSTILL_SECONDS = 60.0
WRITTEN_BY_OTHERS = "somebody else wrote it"


def await_limit(file: Path) -> None:
    """Also of a refused value, which is tried again after pauses of up to five minutes."""
    while file.read_text().startswith("max"):
        time.sleep(SAMPLE_SECONDS)


def await_kubelet_tick(node: Node) -> None:
    """The next one, by the kubelet's own word for it."""
    before = node.kubelet_ticks()
    deadline = time.monotonic() + 10 * KUBELET_TICK_SECONDS
    while node.kubelet_ticks() == before:
        assert time.monotonic() < deadline, "the kubelet does not update its tiers"
        time.sleep(SAMPLE_SECONDS)
    # What a tick resets must be seen, and seen to be repaired.
    time.sleep(2 * REPAIRED_WITHIN_SECONDS)


def restart_kubelet(node: Node) -> None:
    node.restart_kubelet()
    node.await_health()


def add_pod(node: Node, name: str) -> None:
    """Not a best-effort one: its start would wait for the very quota that is watched, and on a busy
    host longer than the kubelet does. The kubelet writes all tiers for any pod."""
    requests = {"requests": {"cpu": "50m", "memory": "16Mi"}}
    node.add_pod(name, node_files.pod(name, node_files.REST, requests))
    node.await_pods({name: None})


def reload_systemd() -> None:
    subprocess.run(["systemctl", "daemon-reload"], check=True, timeout=300)


def told_about_quota(journal: list[dict[str, Any]], node: Node) -> list[dict[str, Any]]:
    path = node.best_effort.relative_to("/sys/fs/cgroup")
    return [line for line in journal if line["what"] == f"quota of {path}"]


def repairs(lines: list[dict[str, Any]]) -> list[float]:
    """When the agent saw that somebody else had written, in seconds."""
    return [line["at"] / 1e6 for line in lines if WRITTEN_BY_OTHERS in line.get("because", "")]


def untold(spans: list[Span], repaired: list[float]) -> list[Span]:
    """Resets without a repair of their own. A repair's time is that of its tick's beginning, and
    the tick may have looked only after the reset: it began at most one tick before that."""
    left, without = list(repaired), []
    for span in spans:
        own = next((at for at in left if span.begin - TICK_SECONDS <= at <= span.end), None)
        if own is None:
            without.append(span)
        else:
            left.remove(own)
    return without


def check_observation(watch: Watch, lines: list[dict[str, Any]]) -> None:
    # While even the watch did not get to look, the emulated machine stood still for all.
    pause = longest_pause(watch.samples)
    assert pause < STANDSTILL_SECONDS
    spans = unlimited_spans(watch.samples)
    repaired = repairs(lines)
    slow = [span for span in spans if span.seconds > REPAIRED_WITHIN_SECONDS + pause]
    assert slow == [], f"of {len(spans)} resets these stood too long"
    assert untold(spans, repaired) == [], repaired
    assert not [line for line in lines if "yielded" in line.get("because", "")]


def check_release(running: Standalone, node: Node) -> None:
    limit = node.best_effort / "cpu.max"
    running.end()
    assert not limit.read_text().startswith("max"), "an agent's end must not let work loose"
    done = [line["result"] for line in running.release() if line["what"] != "systemd"]
    assert done == ["applied"]
    assert limit.read_text() == "max 100000\n"
    assert node.is_healthy()
    assert {f"{name}-node" for name in node_files.PODS} <= node.running_pods().keys()


def test_the_quota_stands(node: Node, agent: Callable[..., Standalone]) -> None:
    """As the agent writes by itself: systemd's slices through systemd, the others by file."""
    running = agent()
    running.start()
    limit = node.best_effort / "cpu.max"
    await_limit(limit)
    with Watch(limit) as watch:
        await_kubelet_tick(node)
        restart_kubelet(node)
        add_pod(node, "added")
        if node.driver == "systemd":
            reload_systemd()
        await_kubelet_tick(node)
    unit = f"unit:{node.best_effort.name}"
    assert running.routes() == {unit if node.driver == "systemd" else "file"}
    check_observation(watch, told_about_quota(running.journal(), node))
    check_release(running, node)


@pytest.mark.systemd
def test_out_of_systemds_reach_nothing_is_written(
    node: Node, agent: Callable[..., Standalone], tmp_path: Path
) -> None:
    """A file's value would be reset by every rival, and taken for a baseline later. Once the socket
    is there, the agent that has been refused so far sets the unit."""
    host = tmp_path / "host"
    host.mkdir()
    running = agent("--host-root", str(host))
    running.start()
    limit = node.best_effort / "cpu.max"
    while not is_refused(told_about_quota(running.journal(), node)):
        time.sleep(SAMPLE_SECONDS)
    assert limit.read_text() == "max 100000\n"
    assert running.routes() == set()
    (host / "run/systemd").mkdir(parents=True)
    (host / "run/systemd/private").symlink_to("/run/systemd/private")
    await_limit(limit)
    assert running.routes() == {f"unit:{node.best_effort.name}"}
    check_release(running, node)


def is_refused(lines: list[dict[str, Any]]) -> bool:
    return any("systemd: " in line.get("result", "") for line in lines)
