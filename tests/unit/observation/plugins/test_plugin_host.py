"""Plug-ins in real processes: what they say reaches the tick, and one that hangs or dies is off."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slackwater.model.gap import Gap
from slackwater.model.metric import MetricKey, Sample
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Micros
from slackwater.observation.plugins.plugin_host import PluginHost, PluginLimits, show_node
from tests.unit.observation.plugins.installed import GOOD, changed, install
from tests.unit.policies.ensurance import batch, seen

OWN = MetricKey("example.com/queue", "Plugin/queue")
PLACES = MetricKey("place", "Plugin/queue")
RELEASES = MetricKey("evict_release", "Plugin/queue")
SNAPSHOT = seen(1, batch(1, priority=5), batch(2), usages={1: 300})
AT = SNAPSHOT.at
#: A hang is waited for by tests that end one, and by nobody else.
PATIENT, IMPATIENT = PluginLimits(280, 280), PluginLimits(280, 0.2)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site"
    root = Path(__file__).parents[4]
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{root / 'src'}")
    return folder


@pytest.fixture
def make() -> Iterator[Callable[[PluginLimits], PluginHost]]:
    made: list[PluginHost] = []

    def make(limits: PluginLimits = PATIENT) -> PluginHost:
        made.append(PluginHost(limits=limits))
        return made[-1]

    yield make
    for each in made:
        each.close()


def wait_until(condition: Callable[[], object]) -> None:
    pause = threading.Event()
    while not condition():
        pause.wait(0.01)


def ask(host: PluginHost) -> None:
    """Until it has answered, or is off."""
    wait_until(lambda: any(s.attributes or s.problem for s in host.use(("queue",))))
    host.samples(OWN, AT)
    host.offer(SNAPSHOT)
    wait_until(
        lambda: (
            any(s.problem for s in host.use(("queue",)))
            or not isinstance(host.samples(OWN, AT), Gap)
        )
    )


def test_what_it_says_reaches_the_tick(path: Path, make: Callable[..., PluginHost]) -> None:
    install(path, GOOD)
    host = make()
    assert [each.attributes for each in host.use(("queue",))] == [None]
    assert host.samples(OWN, AT) == Gap("the plug-in queue: it has not answered yet")
    ask(host)
    (state,) = host.use(("queue",))
    assert state.attributes is not None
    assert state.problem == ""
    assert host.use(("queue",)) is host.use(("queue",))
    assert host.samples(OWN, AT) == (Sample(2.0, {}, AT),)
    assert host.samples(PLACES, AT) == (Sample(0.0, {"PodUid": "2"}), Sample(1.0, {"PodUid": "1"}))
    assert host.samples(RELEASES, AT) == (
        Sample(300.0, {"PodUid": "1"}),
        Sample(0.0, {"PodUid": "2"}),
    )
    late = Micros(AT + 11_000_000)
    assert isinstance(host.samples(OWN, late), Gap)
    assert isinstance(host.samples(MetricKey("x", "NodeQOS/x"), AT), Gap)
    assert host.use(()) == ()
    assert host.samples(OWN, AT) == Gap("the plug-in queue is not switched on")


def test_what_it_prints_is_shown_within_bounds(
    path: Path, make: Callable[..., PluginHost], capfd: pytest.CaptureFixture[str]
) -> None:
    flood = "import os; os.write(2, b'two\\n' * 100_000); return [Sample(1.0)]"
    install(path, "print('one')\n" + changed(samples=flood))
    host = make()
    ask(host)
    assert not isinstance(host.samples(OWN, AT), Gap)
    told = ""

    def is_told() -> bool:
        nonlocal told
        told += capfd.readouterr().err
        return "left out" in told

    wait_until(is_told)
    host.close()
    assert told.splitlines().count("plug-in queue: two") >= 19
    assert len(told.splitlines()) == 21


@pytest.mark.parametrize(
    ("text", "limits", "told"),
    [
        (
            changed(samples="[0 for _ in iter(int, 1)]"),
            IMPATIENT,
            "it did not answer within 0.2 s; it is off until the agent is restarted",
        ),
        (
            changed(compare="__import__('time').sleep(3600)"),
            IMPATIENT,
            "it did not answer within 0.2 s; it is off until the agent is restarted",
        ),
        (
            changed(samples="__import__('os')._exit(3)"),
            PATIENT,
            "its process ended (exit code 3); it is off until the agent is restarted",
        ),
        (
            changed(samples="__import__('os').kill(__import__('os').getpid(), 11)"),
            PATIENT,
            "its process ended (signal 11); it is off until the agent is restarted",
        ),
        (
            "import time\ntime.sleep(3600)",
            PluginLimits(0.2, 280),
            "it did not answer within 0.2 s; it is off until the agent is restarted",
        ),
        (
            changed(action_priority="99"),
            PATIENT,
            "action_priority is 99, but must be a whole number, 0 to 10; it is off until the agent",
        ),
    ],
    ids=["loops", "sleeps", "exits", "crashes", "never loads", "wrong"],
)
def test_one_that_is_off_says_why_and_the_others_go_on(
    path: Path, make: Callable[..., PluginHost], text: str, limits: PluginLimits, told: str
) -> None:
    install(path, text)
    install(path, GOOD, "other", "other_plugin")
    others = make()
    host = make(limits)
    ask(host)
    (state,) = host.use(("queue",))
    assert state.attributes is None
    assert state.problem.startswith(told)
    found = host.samples(OWN, AT)
    assert isinstance(found, Gap)
    assert found.reason.startswith(f"the plug-in queue: {told}")
    wait_until(lambda: others.use(("other",))[0].attributes)


def test_one_that_raises_stays_on_and_is_told(path: Path, make: Callable[..., PluginHost]) -> None:
    install(path, changed(compare="raise KeyError('team')"))
    host = make()
    ask(host)
    wait_until(lambda: not isinstance(host.samples(OWN, AT), Gap))
    (state,) = host.use(("queue",))
    assert state.attributes is not None
    assert state.problem == "compare raised KeyError: 'team'"
    assert host.samples(PLACES, AT) == Gap("the plug-in queue: compare raised KeyError: 'team'")
    assert host.samples(OWN, AT) == (Sample(2.0, {}, AT),)


def test_one_that_hangs_ends_with_an_agent_that_is_killed(path: Path, tmp_path: Path) -> None:
    noted = tmp_path / "pid"
    note = f"open({str(noted)!r}, 'w').write(str(os.getpid()))"
    install(path, f"import os, time\n{note}\ntime.sleep(9999)")
    script = (
        "import time\n"
        "from slackwater.observation.plugins.plugin_host import PluginHost\n"
        "PluginHost().use(('queue',))\n"
        "time.sleep(9999)"
    )
    agent = subprocess.Popen([sys.executable, "-c", script])
    try:
        wait_until(lambda: noted.exists() and noted.read_text())
    finally:
        agent.kill()
        agent.wait()
    wait_until(lambda: not is_alive(int(noted.read_text())))


def is_alive(pid: int) -> bool:
    """Whoever should bury it may not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_what_it_prints_is_no_answer(path: Path, make: Callable[..., PluginHost]) -> None:
    install(path, f"print('hello')\n{changed(samples='print(node); return []')}")
    host = make()
    ask(host)
    assert host.samples(OWN, AT) == ()


def test_a_plug_in_sees_its_metrics_values_by_pod() -> None:
    series = (Sample(7.0, {"PodName": "pod-1", "PodNamespace": "default"}),)
    snapshot = seen(
        1,
        batch(1, labels={"a": "b"}),
        usages={1: 300},
        metrics={"EnsuranceMetric/queue-depth:queue_length": series, "x": Gap("none")},
    )
    node = show_node(snapshot, "queue-depth")
    (pod,) = node.pods
    assert (pod.value, pod.cpu_usage, pod.qos_class) == (7.0, 300, "BestEffort")
    assert (dict(pod.labels), list(node.metrics)) == (
        {"a": "b"},
        ["EnsuranceMetric/queue-depth:queue_length"],
    )
    assert show_node(snapshot, "queue_length").pods[0].value == 7.0
    assert show_node(snapshot, "other").pods[0].value is None


def test_a_pod_without_an_object_is_not_shown() -> None:
    snapshot: NodeSnapshot = seen(1, batch(1, namespace=""))
    assert show_node(snapshot, "x").pods == ()
