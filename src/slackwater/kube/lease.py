"""Leader election on a coordination.k8s.io/v1 Lease.

Two replicas never lead at once: a leader that could not renew for `deadline` steps down by its own
clock, before the others, which wait for `duration` since they last saw a renewal, may take over.
Only clocks that never go back decide, and that go on while the machine is suspended: a leader that
slept has stepped down when it wakes. The timestamps in the Lease are for people. The Lease is
released at the end, so that the next leader need not wait.
"""

import random
import threading
import time
from collections.abc import Callable

import msgspec

from slackwater.contract.resources import LEASES
from slackwater.http.errors import RequestError, UnreachableError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.api_time import WallClock, format_micro_time
from slackwater.kube.client import Client

_JOIN = 5.0


class LeaseTerms(msgspec.Struct, frozen=True):
    """Seconds; `retry` is the pause between attempts, up to a fifth more. `deadline` is below
    `duration` by what clocks may run apart and a request may hang."""

    duration: float = 15.0
    deadline: float = 10.0
    retry: float = 2.0


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None


class _LeaseMetadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class Lease(msgspec.Struct, frozen=True):
    metadata: _LeaseMetadata = _LeaseMetadata()
    spec: LeaseSpec = LeaseSpec()


def _nothing() -> None:
    """No callback."""


def boot_clock() -> float:
    """Seconds since the boot, those of a suspended machine included, unlike time.monotonic."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Election:
    """Guards one Lease in a thread of its own. Its client should have a short timeout: if it is as
    long as the deadline, one request that hangs ends the term."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        *,
        jitter: random.Random,
        changed: Callable[[], None] = _nothing,
        terms: LeaseTerms = LeaseTerms(),  # noqa: B008
        clock: Callable[[], float] = boot_clock,
        wall: WallClock = time.time,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._jitter = jitter
        self._changed = changed
        self._terms = terms
        self._clock = clock
        self._wall = wall
        self._led_until = 0.0
        self._seen = Lease()
        self._seen_at = 0.0
        self._problem = ""
        self._reported = (False, "")
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Once."""
        self._thread = threading.Thread(target=self._run, name="election", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Releases the lease if it is ours."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(_JOIN)

    def leads(self) -> bool:
        """By the clock, so also false while a renewal hangs for too long."""
        return self._clock() < self._led_until

    def leader(self) -> str:
        """The last known holder; empty if there is none or it is unknown."""
        return self._seen.spec.holder_identity or ""

    def problem(self) -> str:
        """Why the lease cannot be read or renewed; empty while it can."""
        return self._problem

    def attempt(self) -> None:
        """One round: read the lease, and acquire or renew it if it is ours or free."""
        try:
            self._read()
            if self._is_ours() or self._is_free():
                self._acquire_or_renew()
            else:
                self._led_until = 0.0
            self._problem = ""
        except HttpStatusError as refused:
            # Another replica was faster, which is not a problem.
            self._problem = "" if refused.reason in ("Conflict", "AlreadyExists") else str(refused)
        except RequestError as error:
            self._problem = str(error)

    def release(self) -> None:
        """Clears the holder, so that the next candidate may acquire it at once."""
        led, self._led_until = self.leads(), 0.0
        if not led:
            return
        try:
            nobody = {"holder_identity": "", "lease_duration_seconds": 1}
            self._write(msgspec.structs.replace(self._spec(), **nobody))
        except RequestError as error:
            self._problem = str(error)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self.attempt()
                self._report_change()
                self._stopping.wait(self._pause())
            self.release()
        finally:
            self._led_until = 0.0
            self._client.close()
            self._report_change()

    def _pause(self) -> float:
        """Until the next attempt; no longer than we lead, so that the end is reported in time."""
        pause = self._terms.retry * (1 + self._jitter.random() / 5)
        left = self._led_until - self._clock()
        return min(pause, left) if left > 0 else pause

    def _report_change(self) -> None:
        now = (self.leads(), self.leader())
        if now != self._reported:
            self._reported = now
            self._changed()

    def _read(self) -> None:
        """Reads the lease. Any change of it counts as a renewal, whatever its timestamps say."""
        try:
            body = self._client.get(LEASES, self._name, self._namespace)
            found = _decode_lease(body)
        except HttpStatusError as refused:
            if refused.reason != "NotFound":
                raise
            found = Lease()
        if found != self._seen or not self._seen_at:
            self._seen, self._seen_at = found, self._clock()

    def _is_ours(self) -> bool:
        return self._seen.spec.holder_identity == self._identity

    def _is_free(self) -> bool:
        spec = self._seen.spec
        if not spec.holder_identity:
            return True
        lasts = spec.lease_duration_seconds or self._terms.duration
        return self._clock() >= self._seen_at + lasts

    def _acquire_or_renew(self) -> None:
        asked_at = self._clock()
        self._write(self._spec())
        # From before the request: its answer may have taken long.
        self._led_until = asked_at + self._terms.deadline

    def _spec(self) -> LeaseSpec:
        seen, now = self._seen.spec, format_micro_time(self._wall())
        same = self._is_ours()
        return LeaseSpec(
            holder_identity=self._identity,
            lease_duration_seconds=max(round(self._terms.duration), 1),
            lease_transitions=(seen.lease_transitions or 0) + (0 if same else 1),
            acquire_time=(seen.acquire_time or now) if same else now,
            renew_time=now,
        )

    def _write(self, spec: LeaseSpec) -> None:
        """With the version that was read, so that it fails with 409 if another replica wrote
        meanwhile."""
        version = self._seen.metadata.resource_version
        meta = {"name": self._name, "namespace": self._namespace}
        body: dict[str, object] = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {**meta, "resourceVersion": version} if version else meta,
            "spec": spec,
        }
        if version:
            answer = self._client.replace(LEASES, self._name, body, namespace=self._namespace)
        else:
            answer = self._client.create(LEASES, body, self._namespace)
        self._seen, self._seen_at = _decode_lease(answer), self._clock()


def _decode_lease(body: bytes) -> Lease:
    try:
        return msgspec.json.decode(body, type=Lease)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise UnreachableError(f"the answer is no Lease: {error}") from None
