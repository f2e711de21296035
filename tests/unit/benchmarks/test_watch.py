"""What the watch benchmark replays and concludes."""

import http.client
import socket
import threading

import msgspec
import pytest

from benchmarks._watch_recording import PAGE, Recording, name
from benchmarks._watch_replay import Replay, renumbered, renumbered_event, serve
from benchmarks.watch import Cost, goals, middle, plan_said


def cost(seconds: float, peak: float) -> Cost:
    return Cost(seconds, peak, 2 * seconds, 2 * peak, seconds, seconds, 10, 100)


@pytest.mark.parametrize(
    ("faster", "smaller", "verdicts"),
    [
        (5.0, 4.0, ["ok", "ok", "ok", "ok", "ok", "ok"]),
        (4.9, 4.0, ["MISSED", "MISSED", "ok", "MISSED", "MISSED", "ok"]),
        (5.0, 3.9, ["ok", "ok", "MISSED", "ok", "ok", "MISSED"]),
    ],
)
def test_goals(faster: float, smaller: float, verdicts: list[str]) -> None:
    found = goals(cost(1.0, 10.0), cost(faster, 10.0 * smaller))
    assert [one.line().split()[-1] for one in found] == verdicts


def test_the_middle_of_rounds() -> None:
    costs = [cost(seconds, peak) for seconds, peak in [(3, 10), (1, 30), (2, 20)]]
    assert middle(costs) == cost(2, 20)


def test_what_is_run() -> None:
    assert (plan_said([]).pods, plan_said([]).events) == (10_000, 50_000)
    assert plan_said(["--quick", "--json", "x"]).json == "x"
    assert plan_said(["--quick"]).events == 5_000


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--pods", "600"], "--pods is 600, but must be a multiple of 500"),
        (["--pods", "0"], "--pods is 0"),
        (["--pods", "500", "--events", "2501"], "--events is 2501, but must be 1 to 2500"),
        (["--events", "0"], "--events is 0"),
        (["--rounds", "0"], "--rounds is 0, but must be at least 1"),
    ],
)
def test_what_cannot_be_run_is_told(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        plan_said(arguments)
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err


def pod(number: int) -> dict[str, object]:
    return {"metadata": {"name": name(number), "resourceVersion": str(number)}}


def recording() -> Recording:
    """As the server frames them: a list's head, then its objects; a chunk for each event."""
    head = b'{"kind":"PodList","metadata":{"resourceVersion":"7","continue":"x"},"items":['
    pods = b",".join(msgspec.json.encode(pod(number)) for number in range(PAGE))
    events = [
        msgspec.json.encode({"type": "MODIFIED", "object": pod(number)}) + b"\n"
        for number in range(PAGE)
    ]
    return Recording("v1", [head, pods, b"]}\n"], events)


def test_a_copy_differs_in_numbers_alone() -> None:
    content = recording().events[7]
    assert renumbered(content, 1500) == renumbered_event(content, 1500)
    assert len(renumbered(content, 1500)) == len(content)
    assert renumbered(content, 1500) == content.replace(name(7).encode(), name(1507).encode())
    assert renumbered_event(content, 0) is content


def test_a_replay_is_all_pods_and_all_events_once() -> None:
    replay = Replay(recording(), 1000, 800)
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=serve, args=(theirs, replay), daemon=True)
    thread.start()
    connection = http.client.HTTPConnection("replay")
    connection.sock = ours

    def get(target: str) -> bytes:
        connection.request("GET", target)
        return connection.getresponse().read()

    names, target = [], "/api/v1/pods?limit=500"
    while target:
        page = msgspec.json.decode(get(target))
        names += [item["metadata"]["name"] for item in page["items"]]
        token = page["metadata"].get("continue")
        target = f"/api/v1/pods?limit=500&continue={token}" if token else ""
    assert names == [name(number) for number in range(1000)]
    lines = get("/api/v1/pods?watch=true").splitlines()
    told = [msgspec.json.decode(line)["object"]["metadata"]["name"] for line in lines]
    assert told == [name(number) for number in range(800)]
    assert get("/api/v1/pods?watch=true") == b"", "later watches are silent"
    connection.close()
    thread.join()
