"""The only module that sets a systemd unit's runtime property.

For nodes where systemd owns the slices: a value written into the file there is put back at the
kubelet's next tick and by every daemon-reload, a runtime property is not (real-parts.md section
10). Owns the way from a change to SetUnitProperties and back to the kernel's file, which has the
last word. Refuses persistent settings, and units that are not loaded: systemd would make a slice
of any name that it is asked to set.
"""

from collections.abc import Callable
from typing import TypeVar

from slackwater.execution.knob_writer import GONE, Attempt, KnobFiles, Note, failed_attempt, no_note
from slackwater.execution.systemd_wire import (
    PRIVATE_SOCKET,
    TIMEOUT_SECONDS,
    SystemdError,
    SystemdWire,
    Variant,
)
from slackwater.model.cgroup import CgroupRef, CgroupVersion
from slackwater.model.cpus import CpuSet
from slackwater.model.gap import Gap
from slackwater.model.knob import CPUS, KNOBS, WEIGHT, Knob, KnobValue
from slackwater.model.knob_text import KnobRangeError
from slackwater.model.plan import Change, Outcome, Result
from slackwater.model.unit_property import (
    FIRST_WITH_IDLE,
    IDLE_WEIGHT,
    INFINITY,
    Properties,
    Property,
    format_properties,
    parse_properties,
    properties_for,
    property_names,
    value_in,
    value_of,
)
from slackwater.model.units import Micros

_NO_SUCH_UNIT = "org.freedesktop.systemd1.NoSuchUnit"
_NOT_HERE = frozenset(
    {
        "org.freedesktop.DBus.Error.AccessDenied",
        "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired",
        # This systemd does not know the property yet.
        "org.freedesktop.DBus.Error.PropertyReadOnly",
        "org.freedesktop.DBus.Error.UnknownProperty",
    }
)
_INTERFACES = {".slice": "Slice", ".scope": "Scope"}
_CPU_MASK = "AllowedCPUs"
#: How long systemd is left alone after it did not answer. A daemon-reload of a large node takes
#: seconds; a plan of fifty units must not wait for it fifty times.
PAUSE = Micros(10_000_000)
#: At the end there is no later tick: each answer is waited for longer, and asked for again sooner.
LAST_TIMEOUT_SECONDS = 5.0
LAST_PAUSE = Micros(1_000_000)
_Answer = TypeVar("_Answer")


class UnitWriter:
    """Sets knobs through the units that own their cgroups. Its systemd may be away: each talk asks
    again, and until the first answer the newest version's properties are taken for its own."""

    def __init__(
        self,
        files: KnobFiles,
        clock: Callable[[], Micros],
        socket_path: str = PRIVATE_SOCKET,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        self._files = files
        self._clock = clock
        self._socket_path = socket_path
        self._timeout = timeout
        self._pause = PAUSE
        self._paused_until = Micros(0)
        #: Its version; None until it answered once.
        self.systemd: int | None = None

    @classmethod
    def open(
        cls,
        files: KnobFiles,
        clock: Callable[[], Micros],
        socket_path: str = PRIVATE_SOCKET,
        timeout: float = TIMEOUT_SECONDS,
        first_timeout: float | None = None,
    ) -> "UnitWriter | Gap":
        """Asks systemd for its version. A Gap where no systemd answers. `first_timeout` is for
        that question: before the first tick there is more time than in one."""
        made = cls(files, clock, socket_path, first_timeout or timeout)
        silent = made.ask()
        made._timeout = timeout
        return silent or made

    def ask(self) -> Gap | None:
        """For its version, unless that is known. None where it answered."""
        try:
            self._converse(lambda _wire: None)
        except (OSError, SystemdError) as error:
            return Gap(f"systemd does not answer on {self._socket_path}: {_reason(error)}")
        return None

    def be_quick(self) -> None:
        """From here on, as in a tick; systemd is asked at once, even if it was silent before."""
        self._timeout = TIMEOUT_SECONDS
        self._paused_until = Micros(0)

    def be_patient(self) -> None:
        """From here on: nothing comes after this that could try again."""
        self._timeout = max(self._timeout, LAST_TIMEOUT_SECONDS)
        self._pause, self._paused_until = LAST_PAUSE, Micros(0)

    def owns(self, ref: CgroupRef, knob: Knob) -> bool:
        """Whether this knob of this cgroup is systemd's to write."""
        return _interface(ref) is not None and bool(self._names(knob))

    def knobs(self) -> frozenset[str]:
        """The knobs that systemd has properties for here."""
        return frozenset(knob.name for knob in KNOBS if self._names(knob))

    def text(self, ref: CgroupRef, knob: Knob) -> str | Attempt:
        """The unit's own properties, in the ledger's spelling."""
        if not self._files.lives(ref):
            return GONE
        try:
            return self._converse(lambda wire: format_properties(self._get(wire, ref, knob)))
        except (OSError, SystemdError) as error:
            return self._explain(ref, error)

    def read(self, ref: CgroupRef, knob: Knob) -> KnobValue | Gap:
        """What the unit says; what is in force is the file's to say."""
        match self.text(ref, knob):
            case Attempt() as attempt:
                return attempt.gap()
            case text:
                return value_in(knob, text)

    def write(self, change: Change, note: Note = no_note) -> Outcome:
        """Sets the property unless both it and the kernel's file already show the value."""

        def converse() -> Attempt:
            wanted = properties_for(change.knob, self._version(change.knob), change.new)
            return self._converse(lambda wire: self._write(wire, change, wanted, note))

        return self._outcome(change, converse)

    def restore(self, change: Change, text: str) -> Outcome:
        """Back to the very properties that stood there, "not set" included."""

        def converse() -> Attempt:
            wanted = parse_properties(text)
            if isinstance(wanted, Gap):
                return Attempt(Result.REFUSED, wanted.reason)
            return self._converse(lambda wire: self._restore(wire, change, wanted))

        return self._outcome(change, converse)

    def _outcome(self, change: Change, converse: Callable[[], Attempt]) -> Outcome:
        started = self._clock()
        try:
            attempt = converse() if self._files.lives(change.ref) else GONE
        except KnobRangeError as error:
            attempt = Attempt(Result.REFUSED, str(error))
        except (OSError, SystemdError) as error:
            attempt = self._explain(change.ref, error)
        took = Micros(self._clock() - started)
        return Outcome(change, attempt.result, attempt.detail, took)

    def _write(self, wire: SystemdWire, change: Change, wanted: Properties, note: Note) -> Attempt:
        if not self._names(change.knob):  # found out a moment ago, with its version
            why = f"systemd {self.systemd} has no property for {change.knob.name}"
            return Attempt(Result.REFUSED, why)
        current = self._get(wire, change.ref, change.knob)
        same = value_of(change.knob, current) == value_of(change.knob, wanted)
        if same and self._differs(change, wanted) is None:
            return Attempt(Result.UNCHANGED)
        if change.knob == WEIGHT and current[0].value == IDLE_WEIGHT:
            return Attempt(Result.REFUSED, f"{change.ref.name()} is idle, which has no weight")
        refusal = note(format_properties(current), format_properties(wanted))
        if refusal is not None:
            return refusal
        attempt = self._set(wire, change, wanted)
        if attempt.result is Result.REFUSED:
            # What the kernel refused must not take effect with the next daemon-reload.
            self._set(wire, change, current)
        return attempt

    def _restore(self, wire: SystemdWire, change: Change, wanted: Properties) -> Attempt:
        current = self._get(wire, change.ref, change.knob)
        if current == wanted and self._differs(change, wanted) is None:
            return Attempt(Result.UNCHANGED)
        return self._set(wire, change, wanted)

    def _set(self, wire: SystemdWire, change: Change, wanted: Properties) -> Attempt:
        """systemd applies a property in its next loop, after its answer to the call: a second
        round trip comes back when the kernel's files are written."""
        pairs = [(each.name, _variant(each)) for each in wanted]
        wire.manager("SetUnitProperties", "sba(sv)", change.ref.name(), True, pairs)
        self._get(wire, change.ref, change.knob)
        return self._cleared(change, wanted) or Attempt(Result.APPLIED)

    def _cleared(self, change: Change, wanted: Properties) -> Attempt | None:
        """An unset AllowedCPUs leaves the file of a group with processes as it was: the kernel
        does not let it be emptied. Nothing of systemd's holds it any more, so we open it up."""
        differs = self._differs(change, wanted)
        if differs is None or change.knob != CPUS or not _is_unset(wanted):
            return differs
        self._files.write(Change(change.ref, CPUS, change.old, CpuSet()))
        return self._differs(change, wanted)

    def _differs(self, change: Change, wanted: Properties) -> Attempt | None:
        """None where the kernel shows what the properties say. systemd enables a controller
        with the first property for it and ends it with the last: a file may be missing then."""
        knob, expected = change.knob, value_of(change.knob, wanted)
        standing = self._files.text(change.ref, knob)
        if isinstance(standing, Attempt):
            if standing.result is not Result.UNSUPPORTED:
                return standing
            # A missing file is about this cgroup now, not about systemd.
            return None if _is_unset(wanted) else Attempt(Result.REFUSED, standing.detail)
        if self._files.shows(knob, standing, expected):
            return None
        detail = f"systemd took {format_properties(wanted)}, but the kernel shows {standing!r}"
        return Attempt(Result.REFUSED, detail)

    def _get(self, wire: SystemdWire, ref: CgroupRef, knob: Knob) -> Properties:
        (path,) = wire.manager("GetUnit", "s", ref.name())
        interface = _interface(ref) or ""
        home = wire.get(path, interface, "ControlGroup")
        if home != f"/{ref.path}":
            raise SystemdError("", f"systemd keeps {ref.name()} at {home!r}, not /{ref.path}")
        return tuple(
            Property(name, _number(wire.get(path, interface, name))) for name in self._names(knob)
        )

    def _names(self, knob: Knob) -> tuple[str, ...]:
        match self._files.version(knob):
            case Gap():
                return ()
            case version:
                newest = FIRST_WITH_IDLE if self.systemd is None else self.systemd
                return property_names(knob, version, newest)

    def _version(self, knob: Knob) -> CgroupVersion:
        match self._files.version(knob):
            case Gap(reason):
                raise KnobRangeError(reason)
            case version:
                return version

    def _converse(self, talk: Callable[[SystemdWire], _Answer]) -> _Answer:
        """Again once where the connection broke: systemd re-executed itself. Every talk may be
        held twice."""
        if self._clock() < self._paused_until:
            raise TimeoutError("it did not answer a moment ago")
        try:
            try:
                return self._converse_once(talk)
            except ConnectionError:
                return self._converse_once(talk)
        except TimeoutError:
            self._paused_until = Micros(self._clock() + self._pause)
            raise

    def _converse_once(self, talk: Callable[[SystemdWire], _Answer]) -> _Answer:
        with SystemdWire.connect(self._socket_path, self._timeout) as wire:
            if self.systemd is None:
                self.systemd = _leading_number(str(wire.manager_property("Version")))
            return talk(wire)

    def _explain(self, ref: CgroupRef, error: OSError | SystemdError) -> Attempt:
        if not self._files.lives(ref):
            return GONE
        if isinstance(error, OSError):
            attempt = failed_attempt(error)
            return Attempt(attempt.result, f"systemd: {_reason(error)}")
        result = Result.UNSUPPORTED if error.name in _NOT_HERE else Result.REFUSED
        return Attempt(result, f"systemd: {error}")


def _interface(ref: CgroupRef) -> str | None:
    return _INTERFACES.get(ref.name()[-len(".slice") :])


def _is_unset(properties: Properties) -> bool:
    return all(each.value == (0 if each.name == _CPU_MASK else INFINITY) for each in properties)


def _variant(each: Property) -> Variant:
    """AllowedCPUs is an array of bytes, the lowest CPUs first (cpu_set_to_dbus)."""
    if each.name == _CPU_MASK:
        return "ay", each.value.to_bytes((each.value.bit_length() + 7) // 8, "little")
    return "t", each.value


def _number(value: object) -> int:
    if isinstance(value, bytes):
        return int.from_bytes(value, "little")
    if isinstance(value, int):
        return value
    raise SystemdError("", f"a property is {value!r}, neither a number nor a CPU mask")


def _leading_number(version: str) -> int:
    """252 of "252.38-1~deb12u1", "v252" and "252"; 0, which has no feature, of anything else."""
    digits = ""
    for sign in version.lstrip("v"):
        if not sign.isdigit():
            break
        digits += sign
    return int(digits or 0)


def _reason(error: OSError | SystemdError) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)
