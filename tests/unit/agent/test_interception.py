"""The thread that a container runtime asks: registration, answers, and whatever goes wrong."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slackwater.agent.container_start import TickBasis
from slackwater.agent.interception import InterceptionThread, StartAnswers
from slackwater.agent.tick import TickMemory
from slackwater.contract.koordinator.normalization import Hundredths
from slackwater.contract.kubernetes_pod import Pod, read_pod
from slackwater.model.cgroup import CgroupRef
from slackwater.model.gap import Gap
from slackwater.model.plan import StartNote
from slackwater.model.units import UNLIMITED, Bandwidth, Micros
from slackwater.nri import frames, messages
from slackwater.nri.messages import ContainerRequest, CpuRequest, Sandbox
from slackwater.policies import normalization
from slackwater.policies.catalog import POLICIES
from slackwater.record.interception import (
    NOT_INTERCEPTED,
    InterceptionRecord,
    InterceptionState,
    InterceptionWay,
)
from tests.unit.execution.desk import quota
from tests.unit.nri import runtime_side
from tests.unit.nri.runtime_side import FakeRuntime
from tests.unit.policies.pods import snapshot

UID, ID = "0a1b2c3d-0000-4000-8000-000000000001", "c" * 64
POD_PATH = f"kubepods/burstable/pod{UID}"
RATIO = {normalization.NAME: normalization.BoundNormalization(True, Hundredths(120))}
ASKED = ContainerRequest(
    Sandbox(uid=UID, name="web", namespace="shop"), ID, "main", CpuRequest(2048, 200_000, 100_000)
)


def pod_object(uid: str = UID) -> Pod:
    container = {"name": "main", "resources": {"limits": {"cpu": "2"}}}
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop", "uid": uid},
        "spec": {"containers": [container]},
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }
    return read_pod(document, "test")


class Notes:
    """In place of the executor: one pod's group, and what was noted."""

    def __init__(self) -> None:
        self.noted: list[StartNote] = []
        self.refusal: Gap | None = None
        self.pod_quota: Any = Bandwidth(UNLIMITED)
        self.groups = {POD_PATH: 77}

    def note_start(self, note: StartNote) -> Gap | None:
        if self.refusal is None:
            self.noted.append(note)
        return self.refusal

    def read_quota(self, ref: CgroupRef) -> Any:
        if isinstance(self.pod_quota, Exception):
            raise self.pod_quota
        assert ref.id == 77
        return self.pod_quota

    def locate(self, path: str) -> int | None:
        return self.groups.get(path)


class Answering:
    """Answers as they are in an agent whose last tick was at 1 s."""

    def __init__(self) -> None:
        self.notes = Notes()
        self.record = InterceptionRecord()
        self.basis: TickBasis | None = TickBasis(snapshot(), TickMemory(), RATIO)
        self.now = 1_500_000
        self.pods = [pod_object()]
        self.said: list[str] = []
        self.answers = StartAnswers(
            lambda: self.basis,
            self._find,
            self.notes,
            POLICIES,
            self._clock,
            self.record,
            self.said.append,
        )
        self.answers.runtime = "containerd"

    def _find(self, namespace: str, name: str) -> Pod | None:
        return next((p for p in self.pods if (p.namespace, p.name) == (namespace, name)), None)

    def _clock(self) -> Micros:
        self.now += 10
        return Micros(self.now)


@pytest.fixture
def answering() -> Answering:
    return Answering()


def test_a_new_container_starts_with_its_share_of_this_machine(answering: Answering) -> None:
    assert answering.answers.on_create(ASKED) == 166_667
    [note] = answering.notes.noted
    assert (note.path, note.asked, note.told) == (
        f"{POD_PATH}/{ID}",
        quota(200_000),
        quota(166_667),
    )
    counts = answering.record.counts()
    assert counts.answers == {("create", "adjusted"): 1}
    assert sum(counts.durations) == 1
    assert counts.duration_sum > 0


def test_an_update_is_divided_once(answering: Answering) -> None:
    """What is asked for, not what the container had."""
    assert answering.answers.on_update(ASKED) == 166_667
    without = ContainerRequest(ASKED.sandbox, ID, "main", CpuRequest(512))
    assert answering.answers.on_update(without) is None
    assert answering.record.counts().answers == {("update", "adjusted"): 1}


def test_a_pod_of_the_last_tick_is_known_without_a_newer_object(answering: Answering) -> None:
    from slackwater.observation.objects.workload_matching import workloads_of

    [known] = workloads_of(tuple(answering.pods), ())
    answering.pods = []
    assert answering.answers.on_create(ASKED) is None
    answering.basis = TickBasis(snapshot(known), TickMemory(), RATIO)
    assert answering.answers.on_create(ASKED) == 166_667


def test_unlimited_stays_unlimited(answering: Answering) -> None:
    for asked in (None, -1):
        request = ContainerRequest(ASKED.sandbox, ID, "main", CpuRequest(quota=asked))
        assert answering.answers.on_create(request) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda a: setattr(a, "basis", None),
        lambda a: setattr(a, "now", 40_000_000),  # the loop has stopped
        lambda a: a.notes.groups.clear(),  # not a pod of this tree
        lambda a: setattr(a, "pods", []),
        lambda a: setattr(a, "pods", [pod_object("another")]),
        lambda a: setattr(a.notes, "refusal", Gap("the disk is full")),
    ],
)
def test_what_is_not_known_or_not_noted_is_left_to_the_tick(
    answering: Answering, change: Callable[[Answering], None]
) -> None:
    change(answering)
    assert answering.answers.on_create(ASKED) is None
    assert answering.notes.noted == []
    assert answering.record.counts().answers == {("create", "unchanged"): 1}


@pytest.mark.parametrize(
    "request_",
    [
        ContainerRequest(),
        ContainerRequest(Sandbox(uid="../../.."), ID, "main"),
        ContainerRequest(Sandbox(uid="A B"), ID, "main"),
    ],
)
def test_a_uid_that_is_none_is_no_path(answering: Answering, request_: ContainerRequest) -> None:
    assert answering.answers.on_create(request_) is None


@pytest.mark.parametrize(
    ("request_", "quota_read", "reason"),
    [
        (ASKED, RuntimeError("broken"), "RuntimeError: broken"),
        (
            ContainerRequest(ASKED.sandbox, ID, "main", CpuRequest(quota=200_000, cpus="a-b")),
            Gap(""),
            "CpuListError",
        ),
        (ContainerRequest(ASKED.sandbox, "../x", "main", ASKED.cpu), Gap(""), "NotAnId"),
    ],
)
def test_whatever_goes_wrong_the_container_starts(
    answering: Answering, request_: ContainerRequest, quota_read: Any, reason: str
) -> None:
    answering.notes.pod_quota = quota_read
    for _ in range(3):
        assert answering.answers.on_create(request_) is None
    assert answering.record.counts().answers == {("create", "failed"): 3}
    [said] = answering.said
    assert reason in said


class Told:
    """The sentences of a thread, which can be waited for."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.sentences: list[str] = []

    def add(self, sentence: str) -> None:
        with self._changed:
            self.sentences.append(sentence)
            self._changed.notify_all()

    def wait_for(self, part: str) -> None:
        with self._changed:
            self._changed.wait_for(lambda: any(part in each for each in self.sentences))


@pytest.fixture(autouse=True)
def switching_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """How often threads take turns is the process's."""
    monkeypatch.setattr("sys.setswitchinterval", lambda _seconds: None)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[FakeRuntime]:
    made = FakeRuntime(tmp_path)
    yield made
    made.close()


@pytest.fixture
def thread(
    runtime: FakeRuntime, answering: Answering, told: Told, monkeypatch: pytest.MonkeyPatch
) -> Iterator[InterceptionThread]:
    monkeypatch.setattr("slackwater.agent.interception._FIRST_PAUSE", 0.01)
    made = InterceptionThread(runtime.path, answering.answers, answering.record, told.add)
    yield made
    runtime.hang_up()
    made.stop()


def test_it_registers_once_and_answers(
    thread: InterceptionThread, runtime: FakeRuntime, answering: Answering, told: Told
) -> None:
    thread.use(True)
    thread.use(True)
    registration = runtime.register()
    assert (registration.service, registration.method) == (
        messages.RUNTIME_SERVICE,
        "RegisterPlugin",
    )
    answer = runtime.call("CreateContainer", runtime_side.encode_creation(ASKED))
    assert runtime_side.adjusted_quota(answer) == 166_667
    assert answering.record.state == InterceptionState(
        InterceptionWay.NRI,
        f"containerd 2.2.9 asks at {runtime.path} before each start",
        "containerd 2.2.9",
    )
    assert answering.record.counts().connections == 1


def test_it_comes_back_after_the_runtime(
    thread: InterceptionThread, runtime: FakeRuntime, answering: Answering, told: Told
) -> None:
    thread.use(True)
    runtime.register()
    runtime.call("CreateContainer", b"")
    runtime.hang_up()
    told.wait_for("closed the connection")
    runtime.register()
    runtime.call("CreateContainer", b"")
    assert answering.record.state.way is InterceptionWay.NRI
    assert answering.record.counts().connections == 2
    runtime.call("Shutdown")
    told.wait_for("shuts down")
    runtime.register()


def test_it_is_switched_off_and_on(
    thread: InterceptionThread, runtime: FakeRuntime, answering: Answering, told: Told
) -> None:
    thread.use(True)
    runtime.register()
    runtime.call("CreateContainer", b"")
    thread.use(False)
    told.wait_for("interceptStarts is false")
    assert answering.record.state == NOT_INTERCEPTED
    assert told.sentences == [
        f"NRI: containerd 2.2.9 asks at {runtime.path} before each start",
        "reconcile alone: agent.interceptStarts is false",
    ]
    thread.use(True)
    runtime.register()


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (runtime_side.encode_registered(3, "bad index"), "refused us: bad index"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak NRI"),
        (b"", "did not register us"),
    ],
)
def test_a_runtime_that_does_not_take_us(
    thread: InterceptionThread, runtime: FakeRuntime, told: Told, answer: bytes, sentence: str
) -> None:
    thread.use(True)
    runtime.accept()
    runtime.send(answer)
    if not answer:
        runtime.hang_up()
    told.wait_for(sentence)
    runtime.hang_up()
    runtime.register()
    told.wait_for("before each start")


def test_garbage_in_a_question_does_not_end_the_conversation(
    thread: InterceptionThread, runtime: FakeRuntime, answering: Answering
) -> None:
    thread.use(True)
    runtime.register()
    assert runtime.call("CreateContainer", b"\xff\xff") == frames.TtrpcResponse()
    answer = runtime.call("CreateContainer", runtime_side.encode_creation(ASKED))
    assert runtime_side.adjusted_quota(answer) == 166_667
    assert answering.record.counts().answers == {
        ("unknown", "failed"): 1,
        ("create", "adjusted"): 1,
    }
    [said] = answering.said
    assert said == "a container starts unadjusted: a number is cut off"


def test_without_a_socket_it_says_so_and_looks_again(
    tmp_path: Path, answering: Answering, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slackwater.agent.interception._FIRST_PAUSE", 0.01)
    path = str(tmp_path / "later" / "nri.sock")
    thread = InterceptionThread(path, answering.answers, answering.record, told.add)
    thread.use(True)
    told.wait_for(f"reconcile alone: there is no {path}: NRI is off in the container runtime")
    (tmp_path / "later").mkdir()
    runtime = FakeRuntime(tmp_path / "later")
    runtime.register()
    told.wait_for("before each start")
    thread.stop()
    runtime.close()
    thread.use(True)  # after the end nothing begins


def test_one_that_was_never_wanted_has_no_thread(
    tmp_path: Path, answering: Answering, told: Told
) -> None:
    thread = InterceptionThread(str(tmp_path), answering.answers, answering.record, told.add)
    thread.use(False)
    thread.stop()
    assert "interception" not in {each.name for each in threading.enumerate()}
    assert told.sentences == []
