"""The endpoint of a real agent on real cgroups: what it shows, and what can be asked of it."""

import contextlib
import fcntl
import http.client
import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slackwater.agent.endpoint_file import EndpointFile, read_endpoint_file
from tests.kernel.bed import Bed
from tests.kernel.hand import work
from tests.kernel.running import ALLOWED, SETTINGS, Running, quota, wait_for

#: Whole processes are slow in an emulated machine, and none of this depends on systemd.
pytestmark = pytest.mark.cgroupfs

#: So much room that the quota follows every stir of the machine.
RESTLESS = SETTINGS.replace('cpu: "2"', 'cpu: "64"').replace(
    "threshold: 90", "threshold: 90, jitter: 0"
)


def waiting(for_what: str) -> Iterator[None]:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        yield
        time.sleep(0.1)
    raise AssertionError(f"waited for {for_what} in vain")


def note_of(running: Running) -> EndpointFile:
    for _ in waiting("the note of an endpoint"):
        note = read_endpoint_file(str(running.state))
        if note is not None:
            return note
    raise AssertionError


def ask(note: EndpointFile, path: str, method: str = "GET", token: str = "") -> tuple[int, str]:
    connection = http.client.HTTPConnection(note.address.host, note.address.port, timeout=300)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with contextlib.closing(connection):
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def release_beside(running: Running) -> tuple[int, list[dict[str, Any]], str]:
    """`slackwater release` while the agent runs."""
    asking = running._start("release")
    output, errors = asking.communicate(timeout=300)
    return asking.returncode, [json.loads(line) for line in output.splitlines()], errors


def metrics(note: EndpointFile) -> dict[str, float]:
    status, text = ask(note, "/metrics")
    assert status == 200
    rows = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in rows}


def test_what_is_shown_is_what_the_kernel_has(
    bed: Bed, tiers: tuple[str, str], start: Callable[..., Running]
) -> None:
    work(bed, tiers[1], busy=0.01, idle=0.1)
    note = note_of(start("--reading", "everything"))
    wait_for(bed, tiers[0], 10, ALLOWED)
    shown: dict[str, float] = {}
    for _ in waiting("a tick that read our quota"):
        before, shown, after = quota(bed, tiers[0]), metrics(note), quota(bed, tiers[0])
        read = round(1000 * shown['slackwater_tier_cpu_quota_cores{tier="besteffort"}'], 6)
        if before == after == read:  # nothing was written meanwhile
            break
    assert shown['slackwater_tier_cpu_quota_cores{tier="burstable"}'] == float("inf")
    assert shown["slackwater_node_cpu_allocatable_cores"] == 2
    assert 0 < shown["slackwater_node_cpu_usage_cores"] < 1000
    assert shown["slackwater_knobs_held"] == 1
    assert shown['slackwater_knob_changes_total{knob="quota",level="tier",result="applied"}'] >= 1
    assert shown['slackwater_node_cpu_throttle_events_total{resource="cpu"}'] >= 1
    assert shown['slackwater_policy_enabled{policy="best_effort_share"}'] == 1
    assert ask(note, "/healthz") == (200, '{"ok":true}\n')
    assert ask(note, "/readyz") == (200, '{"ok":true}\n')
    status, explained = ask(note, "/v1/explain?target=besteffort")
    assert (status, json.loads(explained)[0]["baseline"]) == (200, "unlimited")
    status, seen = ask(note, "/v1/top")
    assert (status, json.loads(seen)["node"]["allocatable"]) == (200, 2000)
    status, recording = ask(note, "/v1/ticks")
    assert status == 200
    assert recording.count("\n") >= 3  # a head, settings, ticks


def test_released_by_hand_it_stays_released(
    bed: Bed, tiers: tuple[str, str], start: Callable[..., Running]
) -> None:
    running = start()
    best_effort, _ = tiers
    note = note_of(running)
    wait_for(bed, best_effort, 10, ALLOWED)
    assert ask(note, "/v1/release", "POST")[0] == 401
    assert ask(note, "/v1/release", "POST", "0" * 64)[0] == 403
    assert quota(bed, best_effort) is not None  # neither did anything
    code, released, said = release_beside(running)
    assert (code, [line["result"] for line in released]) == (0, ["applied"])
    assert said == "slackwater: the running agent did it and is paused until `slackwater resume`\n"
    assert released[0]["because"] == "released manually"
    assert quota(bed, best_effort) is None
    before = metrics(note)['slackwater_ticks_total{kind="regular"}']
    for _ in waiting("three more ticks"):
        assert quota(bed, best_effort) is None
        if metrics(note)['slackwater_ticks_total{kind="regular"}'] >= before + 3:
            break
    assert metrics(note)["slackwater_paused"] == 1
    status, ready = ask(note, "/readyz")
    assert status == 200
    assert json.loads(ready)["paused"].startswith("released manually")
    assert release_beside(running)[:2] == (0, [])  # nothing is left to put back
    lines = running.end(signal.SIGTERM)
    assert running.process.returncode == 0
    assert lines[-1]["because"] == "released manually"
    assert read_endpoint_file(str(running.state)) is None


def test_a_killed_agents_note_confuses_nobody(
    bed: Bed, tiers: tuple[str, str], start: Callable[..., Running]
) -> None:
    killed = start()
    stale = note_of(killed)
    wait_for(bed, tiers[0], 10, ALLOWED)
    killed.end(signal.SIGKILL)
    assert read_endpoint_file(str(killed.state)) == stale
    code, released = killed.release()  # from the ledger: nobody holds it
    assert (code, [line["because"] for line in released]) == (0, ["released"])
    assert quota(bed, tiers[0]) is None
    deaf = start("--listen", "")
    wait_for(bed, tiers[0], 10, ALLOWED)
    assert read_endpoint_file(str(deaf.state)) is None
    code, released, errors = release_beside(deaf)
    assert (code, released, errors.count("\n")) == (1, [], 1)
    assert f"process {deaf.process.pid} holds the ledger" in errors
    assert "it has no endpoint to be asked at" in errors
    assert quota(bed, tiers[0]) is not None
    deaf.end(signal.SIGTERM)
    assert deaf.release()[0] == 0


def test_nobody_reads_stdout_and_the_agent_goes_on(
    bed: Bed, tiers: tuple[str, str], start: Callable[..., Running], tmp_path: Path
) -> None:
    (tmp_path / "node").mkdir()
    (tmp_path / "node/settings.yaml").write_text(RESTLESS)
    work(bed, tiers[1], busy=0.03, idle=0.13)  # each tick sees another usage
    running = start("--period", "100ms")  # the later one counts
    assert running.process.stdout is not None
    page = fcntl.fcntl(running.process.stdout, fcntl.F_SETPIPE_SZ, 4096)
    note = note_of(running)
    applied = 'slackwater_knob_changes_total{knob="quota",level="tier",result="applied"}'
    for _ in waiting("more effects than the pipe holds lines"):
        if metrics(note).get(applied, 0) * 200 > 2 * page:  # a line has more than 200 bytes
            break
    assert ask(note, "/healthz")[0] == 200
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(30) == 0  # it ends, too
    assert running.lines()  # whole ones
    assert running.release()[0] == 0
    assert quota(bed, tiers[0]) is None
