"""Talks to the container runtime (NRI), which asks about a container's quota before it starts.

One thread, one connection: closed before the next one is made. The runtime waits for an answer, two
seconds at most, so an answer asks nobody and waits for nobody: it is worked out from the last tick
(agent.container_start). Whatever goes wrong, the container starts as the kubelet asked for it, and
the next tick finds it.
"""

import contextlib
import errno
import socket
import sys
import threading
from collections.abc import Callable
from typing import Protocol

import msgspec

from slackwater.agent.container_start import (
    StartDecision,
    StartingContainer,
    TickBasis,
    decide_start,
    has_quotas_at_start,
)
from slackwater.contract.kubernetes_pod import Pod
from slackwater.model.cgroup import CgroupRef, Driver, Level, Tier
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import Gap
from slackwater.model.knob import KnobValue
from slackwater.model.plan import StartNote
from slackwater.model.units import DEFAULT_PERIOD, UNLIMITED, Bandwidth, Micros, Unlimited
from slackwater.model.workload import Workload
from slackwater.nri.messages import ContainerRequest
from slackwater.nri.plugin import PluginSession, RefusedError, SessionPhase
from slackwater.nri.protobuf import WireError
from slackwater.observation.cgroups.paths import (
    NotAnId,
    container_directory,
    layout_of,
    pod_path,
)
from slackwater.observation.objects.workload_matching import workloads_of
from slackwater.policies.policy import Policy
from slackwater.record.interception import (
    NOT_INTERCEPTED,
    AnswerResult,
    InterceptionRecord,
    InterceptionState,
    InterceptionWay,
)

#: Plugins are asked in the order of these digits, and see what those before them changed: late
#: enough to tell another one's quota from the kubelet's.
PLUGIN_NAME, PLUGIN_INDEX = "slackwater", "95"
#: Seconds: how long a runtime may take to register a plugin, by its own default.
_REGISTRATION_SECONDS = 5.0
#: Seconds until the next attempt, each twice the one before.
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
_RECEIVED = 65_536
#: Seconds that Python lets one thread compute before another one gets its turn: by default 5 ms,
#: which a tick would take from each answer.
_SWITCH_SECONDS = 0.0005
#: Of a loop that has stopped: what it knew is no reason for anything any more.
_OLDEST_BASIS = Micros(30_000_000)
_ALL_TIERS = tuple(Tier)


class StartLedger(Protocol):
    """The executor, as far as other threads may use it."""

    def note_start(self, note: StartNote) -> Gap | None: ...

    def read_quota(self, ref: CgroupRef) -> KnobValue | Gap: ...

    def locate(self, path: str) -> int | None: ...


class StartAnswers:
    """Answers the runtime's questions. `basis` gives what the last tick decided from, `find_pod`
    the newest object of a pod by namespace and name. `report` is told why one could not be
    answered, once for each reason."""

    def __init__(
        self,
        basis: Callable[[], TickBasis | None],
        find_pod: Callable[[str, str], Pod | None],
        ledger: StartLedger,
        policies: tuple[Policy, ...],
        clock: Callable[[], Micros],
        record: InterceptionRecord,
        report: Callable[[str], None],
    ) -> None:
        self._basis = basis
        self._find_pod = find_pod
        self._ledger = ledger
        self._policies = tuple(filter(has_quotas_at_start, policies))
        self._clock = clock
        self._record = record
        self._report = report
        self._failure = ""
        #: By uid, those of the tick that `_workloads_of` names.
        self._workloads: dict[str, Workload] = {}
        self._workloads_of: tuple[Workload, ...] = ()
        #: What the runtime calls itself, which is in the names of groups.
        self.runtime = ""

    def on_create(self, request: ContainerRequest) -> int | None:
        return self._answer("create", request)

    def on_update(self, request: ContainerRequest) -> int | None:
        """One that says nothing about the quota leaves it as the runtime has it."""
        if request.cpu.quota is None:
            return None
        return self._answer("update", request)

    def _answer(self, call: str, request: ContainerRequest) -> int | None:
        began = self._clock()
        try:
            told = self._decide(request)
            result = AnswerResult.UNCHANGED if told is None else AnswerResult.ADJUSTED
        except Exception as error:  # noqa: BLE001 - whatever it is, the container has to start
            told, result = None, AnswerResult.FAILED
            self.fail(f"failed with {type(error).__name__}: {error}")
        self._record.add_answer(call, result, Micros(self._clock() - began))
        return told

    def fail(self, reason: str) -> None:
        """A question that was answered by nothing."""
        if reason != self._failure:
            self._failure = reason
            self._report(f"a container starts unadjusted: {reason}")

    def _decide(self, request: ContainerRequest) -> int | None:
        basis = self._basis()
        if basis is None or self._clock() - basis.snapshot.at > _OLDEST_BASIS:
            return None
        container = self._container(basis, request)
        if container is None or not isinstance(container.pod.ref, CgroupRef):
            return None
        decision: StartDecision = decide_start(basis, self._policies, container)
        if decision.quota is None:
            return None
        path = f"{container.pod.ref.path}/{container.directory}"
        note = StartNote(path, container.quota, decision.quota, self._clock())
        if self._ledger.note_start(note) is not None:
            return None  # what cannot be noted is not changed
        limit = decision.quota.limit
        return -1 if isinstance(limit, Unlimited) else int(limit)

    def _container(self, basis: TickBasis, request: ContainerRequest) -> StartingContainer | None:
        """None of what is not a pod of ours, or not known yet."""
        ref = self._pod_group(basis, request)
        pod = None if ref is None else self._workload(basis, request, ref)
        if ref is None or pod is None:
            return None
        layout = layout_of(basis.snapshot.kubepods.path)
        driver = layout.driver if layout else Driver.CGROUPFS
        quota = self._ledger.read_quota(ref)
        return StartingContainer(
            pod,
            request.name,
            container_directory(driver, f"{self.runtime}://{request.id}"),
            _asked(request),
            quota if isinstance(quota, Bandwidth | Gap) else Gap("not a quota"),
            _cpus(request.cpu.cpus),
        )

    def _workload(
        self, basis: TickBasis, request: ContainerRequest, ref: CgroupRef
    ) -> Workload | None:
        """The newest object first: the last tick may be from before the pod."""
        sandbox = request.sandbox
        pod = self._find_pod(sandbox.namespace, sandbox.name)
        if pod is not None and pod.cgroup_uid == sandbox.uid:
            [found] = workloads_of((pod,), (ref,)) or (None,)
            return found
        workloads = basis.snapshot.workloads
        if workloads is not self._workloads_of:
            self._workloads_of = workloads
            self._workloads = {each.uid: each for each in workloads}
        workload = self._workloads.get(sandbox.uid)
        return None if workload is None else msgspec.structs.replace(workload, ref=ref)

    def _pod_group(self, basis: TickBasis, request: ContainerRequest) -> CgroupRef | None:
        """By the pod's uid: the runtime's word for its parent differs by driver."""
        uid, layout = request.sandbox.uid, layout_of(basis.snapshot.kubepods.path)
        if layout is None:
            return None
        for tier in _ALL_TIERS:
            try:
                path = pod_path(layout, tier, uid)
            except NotAnId:
                return None
            found = self._ledger.locate(path)
            if found is not None:
                return CgroupRef(path, found, Level.POD, tier, uid)
        return None


def _asked(request: ContainerRequest) -> Bandwidth:
    cpu = request.cpu
    period = Micros(cpu.period) if cpu.period else DEFAULT_PERIOD
    unlimited = cpu.quota is None or cpu.quota < 0
    return Bandwidth(UNLIMITED if unlimited else Micros(cpu.quota or 0), period)


def _cpus(text: str) -> CpuSet:
    """Raises CpuListError at what is not a list of CPUs: then nothing is decided."""
    return CpuSet.parse(text) if text else CpuSet()


class _EndedError(Exception):
    """A conversation is over; str() says why."""


class InterceptionThread:
    """Guards the connection to the runtime. `report` is told when the way changes."""

    def __init__(
        self,
        path: str,
        answers: StartAnswers,
        record: InterceptionRecord,
        report: Callable[[str], None],
    ) -> None:
        self._path = path
        self._answers = answers
        self._record = record
        self._report = report
        self._is_wanted = False
        self._stopped = threading.Event()
        #: Set at each change of mind.
        self._changed = threading.Event()
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._run, name="interception", daemon=True)

    def use(self, wanted: bool) -> None:
        """After each round, as the settings have it. The thread starts when it is first wanted."""
        if wanted == self._is_wanted or self._stopped.is_set():
            return
        self._is_wanted = wanted
        self._changed.set()
        if wanted and not self._thread.is_alive():
            sys.setswitchinterval(_SWITCH_SECONDS)
            self._thread.start()
        elif not wanted:
            self._hang_up()

    def stop(self) -> None:
        """Ends the conversation; containers start without us from now on."""
        self._stopped.set()
        self._changed.set()
        self._hang_up()
        if self._thread.is_alive():
            self._thread.join(_REGISTRATION_SECONDS)

    def _hang_up(self) -> None:
        connected = self._socket
        if connected is not None:
            with contextlib.suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)

    def _has_to_talk(self) -> bool:
        return self._is_wanted and not self._stopped.is_set()

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while not self._stopped.is_set():
            self._changed.clear()
            if not self._is_wanted:
                self._tell(NOT_INTERCEPTED)
                self._changed.wait()
                continue
            try:
                self._talk()
            except _EndedError as error:
                pause = _FIRST_PAUSE if self._is_active() else min(2 * pause, _LONGEST_PAUSE)
                if self._has_to_talk():
                    self._tell(InterceptionState(InterceptionWay.RECONCILE, str(error)))
            self._changed.wait(pause)

    def _talk(self) -> None:
        """One connection from beginning to end. Raises _EndedError when it is over."""
        session = PluginSession(self._answers.on_create, self._answers.on_update, self._on_garbage)
        with contextlib.closing(_connect(self._path)) as connected:
            self._socket = connected
            try:
                connected.settimeout(_REGISTRATION_SECONDS)
                connected.sendall(session.register(PLUGIN_NAME, PLUGIN_INDEX))
                while self._has_to_talk():
                    self._exchange(connected, session)
            except RefusedError as error:
                raise _EndedError(f"the runtime at {self._path} refused us: {error}") from None
            except WireError as error:
                raise _EndedError(f"{self._path} does not speak NRI: {error}") from None
            except TimeoutError:
                raise _EndedError(
                    f"the runtime at {self._path} did not answer in {_REGISTRATION_SECONDS:.0f} s"
                ) from None
            except OSError as error:
                raise _EndedError(f"lost {self._path}: {error.strerror}") from None
            finally:
                self._socket = None

    def _exchange(self, connected: socket.socket, session: PluginSession) -> None:
        data = connected.recv(_RECEIVED)
        if not data:
            why = "closed the connection" if self._is_active() else "did not register us"
            raise _EndedError(f"the runtime at {self._path} {why}")
        for answer in session.feed(data):
            connected.sendall(answer)
            if session.phase is SessionPhase.ACTIVE and not self._is_active():
                self._become_active(connected, session)
        if session.phase is SessionPhase.ENDED:
            raise _EndedError(f"the runtime at {self._path} shuts down")

    def _is_active(self) -> bool:
        return self._record.state.way is InterceptionWay.NRI

    def _become_active(self, connected: socket.socket, session: PluginSession) -> None:
        connected.settimeout(None)
        configured = session.configuration
        self._answers.runtime = configured.runtime
        self._record.add_connection()
        runtime = f"{configured.runtime} {configured.version}".strip()
        because = f"{runtime} asks at {self._path} before each start"
        self._tell(InterceptionState(InterceptionWay.NRI, because, runtime))

    def _on_garbage(self, reason: str) -> None:
        self._answers.fail(reason)
        self._record.add_answer("unknown", AnswerResult.FAILED, Micros(0))

    def _tell(self, state: InterceptionState) -> None:
        if state != self._record.state:
            self._record.state = state
            self._report(state.title())


def _connect(path: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.settimeout(_REGISTRATION_SECONDS)
        made.connect(path)
    except OSError as error:
        made.close()
        raise _EndedError(why_absent(path, error)) from None
    return made


def why_absent(path: str, error: OSError) -> str:
    """One sentence; what helps is in it."""
    if error.errno == errno.ENOENT:
        return f"there is no {path}: NRI is off in the container runtime, or its folder not mounted"
    if error.errno == errno.ECONNREFUSED:
        return f"nobody listens at {path}"
    return f"{path}: {error.strerror or error}"
