"""One conversation with systemd over its private socket: D-Bus without a bus.

Owns the socket, the handshake and the deadline. Refuses to know a knob. jeepney (messages only)
is imported when the first conversation starts, not before: most nodes have none.

A conversation is short on purpose. systemd sends every signal to every private connection,
asked or not (bus_foreach_bus in src/core/dbus.c), and queues in its own memory what is not
read: a connection that idles between ticks would grow PID 1 (systemd issue 17425).
"""

import struct
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import socket

PRIVATE_SOCKET = "/run/systemd/private"
TIMEOUT_SECONDS = 2.0
_MANAGER = "/org/freedesktop/systemd1"
_NAME = "org.freedesktop.systemd1"
_PROPERTIES = "org.freedesktop.DBus.Properties"
_LONGEST_GREETING = 512

#: A property of a unit with its D-Bus type.
Variant = tuple[str, Any]


class SystemdError(Exception):
    """systemd answered with an error; `name` is D-Bus's."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text or name)
        self.name = name


class SystemdWire:
    """Use as a context; the timeout is for all of it. Every method raises SystemdError, or OSError
    where none answered."""

    def __init__(self, connection: "socket.socket", deadline: float) -> None:
        from jeepney import Parser

        self._connection = connection
        self._deadline = deadline
        self._parser = Parser()
        self._serial = 0

    @classmethod
    def connect(cls, path: str, timeout: float) -> "SystemdWire":
        import socket

        connection = socket.socket(socket.AF_UNIX)
        try:
            deadline = time.monotonic() + timeout
            connection.settimeout(timeout)
            connection.connect(path)
            made = cls(connection, deadline)
            made._parser.add_data(_shake_hands(connection, deadline))
            return made
        except BaseException:
            connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    def manager(self, member: str, signature: str, *body: object) -> tuple[Any, ...]:
        """A call of the manager's."""
        return self._call(_MANAGER, f"{_NAME}.Manager", member, signature, body)

    def manager_property(self, name: str) -> Any:  # noqa: ANN401 - D-Bus decides the type
        return self.get(_MANAGER, "Manager", name)

    def get(self, path: str, interface: str, name: str) -> Any:  # noqa: ANN401
        body = (f"{_NAME}.{interface}", name)
        match self._call(path, _PROPERTIES, "Get", "ss", body):
            case ((str(), value),):
                return value
            case _:
                raise ConnectionError(f"systemd's answer about {name} has no value")

    def _call(
        self, path: str, interface: str, member: str, signature: str, body: tuple[object, ...]
    ) -> tuple[Any, ...]:
        from jeepney import DBusAddress, MessageType, new_method_call

        self._serial += 1
        address = DBusAddress(path, _NAME, interface)
        message = new_method_call(address, member, signature, body)
        self._connection.settimeout(_left(self._deadline))
        self._connection.sendall(message.serialise(serial=self._serial))
        reply = self._reply()
        if reply.header.message_type is MessageType.error:
            raise _refusal(reply)
        found: tuple[Any, ...] = reply.body
        return found

    def _reply(self) -> Any:  # noqa: ANN401 - jeepney has no types
        """The answer to the last call. Signals come in between and are dropped."""
        from jeepney import HeaderFields

        while True:
            try:
                message = self._parser.get_next_message()
            # jeepney asserts what a message must have, such as the end of a text.
            except (LookupError, ValueError, AssertionError, struct.error) as error:
                raise ConnectionError("systemd's socket does not speak D-Bus") from error
            if message is None:
                self._parser.add_data(_received(self._connection, self._deadline))
            elif message.header.fields.get(HeaderFields.reply_serial) == self._serial:
                return message


def _shake_hands(connection: "socket.socket", deadline: float) -> bytes:
    """BEGIN goes out with AUTH, as sd-bus's own client sends it, and no message before the OK.

    A message that systemd reads together with BEGIN is not looked at until more bytes come
    (bus_socket_read_auth in src/libsystemd/sd-bus/bus-socket.c): half of the calls hung when
    BEGIN followed the OK, as D-Bus libraries send it. Returned is what came behind the OK: from
    there on systemd sends this connection its signals too.
    """
    from jeepney.auth import BEGIN, make_auth_external

    connection.sendall(b"\0" + make_auth_external() + BEGIN)
    greeting, end, rest = b"", b"", b""
    while not end:
        if len(greeting) > _LONGEST_GREETING:
            raise ConnectionError("systemd's socket does not speak D-Bus")
        greeting, end, rest = (greeting + _received(connection, deadline)).partition(b"\r\n")
    if not greeting.startswith(b"OK "):
        raise PermissionError(1, "systemd does not let this user in")
    return rest


def _received(connection: "socket.socket", deadline: float) -> bytes:
    connection.settimeout(_left(deadline))
    found = connection.recv(65_536)
    if not found:
        raise ConnectionResetError("systemd closed the connection")
    return found


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("no answer in time")
    return left


def _refusal(reply: Any) -> SystemdError:  # noqa: ANN401 - jeepney has no types
    from jeepney import HeaderFields

    name = str(reply.header.fields.get(HeaderFields.error_name, ""))
    return SystemdError(name, str(reply.body[0]) if reply.body else "")
