"""A private socket in this process that speaks as systemd does, well or badly.

It keeps units as dictionaries of properties and applies them to a PlainKernel's files, so that
the writer can see what the kernel shows.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jeepney import HeaderFields, MessageType, Parser
from jeepney.wrappers import DBusAddress, new_error, new_method_return, new_signal

from slackwater.model.cpus import CpuSet
from slackwater.model.unit_property import INFINITY
from tests.unit.execution.plain_kernel import PlainKernel

DEFAULTS: dict[str, tuple[str, Any]] = {
    "CPUQuotaPerSecUSec": ("t", INFINITY),
    "CPUQuotaPeriodUSec": ("t", INFINITY),
    "CPUWeight": ("t", INFINITY),
    "AllowedCPUs": ("ay", b""),
    "MemoryMax": ("t", INFINITY),
    "MemoryHigh": ("t", INFINITY),
}


class Refused(Exception):  # noqa: N818 - D-Bus's word for it
    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name


class FakeSystemd:
    """Serves any number of connections until it is closed."""

    def __init__(self, path: Path, kernel: PlainKernel) -> None:
        self.path = str(path)
        self.kernel = kernel
        self.version = "252.38-1~deb12u1"
        self.units: dict[str, dict[str, tuple[str, Any]]] = {}
        self.homes: dict[str, str] = {}
        #: Every call's member, in order; sets with what they set.
        self.calls: list[str] = []
        self.sets: list[dict[str, Any]] = []
        #: Called with each member before it is answered: it may sleep, raise or hang up.
        self.before: Callable[[str], None] = lambda _: None
        #: Whether SetUnitProperties reaches the kernel's files.
        self.applies = True
        self.greeting = b"OK 0123456789abcdef0123456789abcdef\r\n"
        self.connections = 0
        self.ended = 0
        #: Sends signals without end in place of every answer.
        self.chatters = False
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(8)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def unit(self, cgroup: str, **properties: tuple[str, Any]) -> None:
        name = cgroup.rsplit("/", 1)[-1]
        self.units[name] = DEFAULTS | properties
        self.homes[name] = f"/{cgroup}"
        self._apply(name)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._host, args=(connection,), daemon=True).start()

    def _host(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            self._talk(connection)
        self.ended += 1

    def _talk(self, connection: socket.socket) -> None:
        """As sd-bus: what arrives with BEGIN is not looked at before more arrives."""
        hello = b""
        while b"BEGIN\r\n" not in hello:
            hello += _some(connection)
        assert hello.startswith(b"\0AUTH EXTERNAL ")
        assert hello.endswith(b"BEGIN\r\n"), "a call came with BEGIN: systemd would let it wait"
        connection.sendall(self.greeting)
        parser = Parser()
        while True:
            message = parser.get_next_message()
            if message is None:
                parser.add_data(_some(connection))
            else:
                self._answer(connection, message)

    def _answer(self, connection: socket.socket, message: Any) -> None:
        fields = message.header.fields
        member = fields[HeaderFields.member]
        assert message.header.message_type is MessageType.method_call
        assert member != "Hello", "there is no bus to say it to"
        self.calls.append(member)
        while self.chatters:
            connection.sendall(noise().serialise(serial=1))
            time.sleep(0.01)
        try:
            self.before(member)
            signature, body = getattr(self, f"_{member}")(fields[HeaderFields.path], *message.body)
            reply = new_method_return(message, signature, body)
        except Refused as refused:
            reply = new_error(message, refused.name, "s", (str(refused),))
        connection.sendall(noise().serialise(serial=1))  # nobody asked for it
        connection.sendall(reply.serialise(serial=2))

    def _GetUnit(self, _: str, name: str) -> tuple[str, tuple[Any, ...]]:  # noqa: N802
        if name not in self.units:
            text = f"Unit {name} not loaded."
            raise Refused("org.freedesktop.systemd1.NoSuchUnit", text)
        return "o", ("/unit/" + name.replace(".", "_2e").replace("-", "_2d"),)

    def _Get(self, path: str, interface: str, name: str) -> tuple[str, tuple[Any, ...]]:  # noqa: N802
        if interface.endswith(".Manager"):
            return "v", (("s", self.version),)
        unit = path.removeprefix("/unit/").replace("_2e", ".").replace("_2d", "-")
        assert interface.endswith({"slice": ".Slice", "scope": ".Scope"}[unit[-5:]])
        if name == "ControlGroup":
            return "v", (("s", self.homes[unit]),)
        if name not in self.units[unit]:
            raise Refused("org.freedesktop.DBus.Error.UnknownProperty", f"no {name}")
        return "v", (self.units[unit][name],)

    def _SetUnitProperties(  # noqa: N802
        self, _: str, name: str, runtime: bool, properties: list[tuple[str, tuple[str, Any]]]
    ) -> tuple[None, tuple[Any, ...]]:
        assert runtime is True, "nothing persistent"
        self.sets.append({key: value for key, (_, value) in properties})
        for key, (signature, value) in properties:
            assert signature == DEFAULTS[key][0]
            padded = value.ljust(8, b"\0") if signature == "ay" and value else value
            self.units[name][key] = (signature, padded)
        if self.applies:
            self._apply(name)
        return None, ()

    def _apply(self, name: str) -> None:
        """cgroup_context_apply: everything of a controller's, not only what was set."""
        folder = self.kernel.folder(self.homes[name].lstrip("/"))
        unit = {key: value for key, (_, value) in self.units[name].items()}
        per_second, weight = unit["CPUQuotaPerSecUSec"], unit["CPUWeight"]
        period = 100_000 if unit["CPUQuotaPeriodUSec"] == INFINITY else unit["CPUQuotaPeriodUSec"]
        limit = "max" if per_second == INFINITY else per_second * period // 1_000_000
        texts = {
            "cpu.max": f"{limit} {period}",
            "cpu.idle": str(int(weight == 0)),
            "cpu.weight": "100" if weight == INFINITY else str(weight),
            "cpuset.cpus": CpuSet(int.from_bytes(unit["AllowedCPUs"], "little")).format(),
        }
        for file, key in (("memory.max", "MemoryMax"), ("memory.high", "MemoryHigh")):
            texts[file] = "max" if unit[key] == INFINITY else str(unit[key] // 4096 * 4096)
        for file, text in texts.items():
            (folder / file).write_text(f"{text}\n")


def _some(connection: socket.socket) -> bytes:
    found = connection.recv(4096)
    if not found:
        raise ConnectionResetError
    return found


def noise() -> Any:
    """A signal, as systemd sends it to every private connection."""
    emitter = DBusAddress("/org/freedesktop/systemd1", interface="org.freedesktop.systemd1.Manager")
    return new_signal(emitter, "Reloading", "b", (True,))


def asleep(seconds: float) -> Callable[[str], None]:
    return lambda _: time.sleep(seconds)


def hang_up(times: int) -> Callable[[str], None]:
    """Breaks off instead of answering, so many times."""
    left = [times]

    def act(_: str) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise ConnectionResetError

    return act
