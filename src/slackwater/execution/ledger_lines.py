"""The lines of the ledger's file, as JSON."""

from typing import Any

import msgspec

from slackwater.model.plan import LedgerEntry, StartNote

Key = tuple[int, str, str]


class LedgerHeader(msgspec.Struct, frozen=True, omit_defaults=True):
    """`reader` is the oldest format whose programs may use the file. `init` says when process 1 was
    started: in a node that is a container it changes with the cgroups, and the boot does not."""

    ledger: int
    boot: str
    hierarchy: str
    reader: int = 1
    init: str = ""


class LedgerLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of the four. `forget` is a container's path."""

    note: LedgerEntry | None = None
    clear: Key | None = None
    start: StartNote | None = None
    forget: str | None = None


def decode_header(line: bytes) -> LedgerHeader | None:
    try:
        return msgspec.json.decode(line, type=LedgerHeader)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def decode_json(line: bytes) -> Any:  # noqa: ANN401 - anything may stand there
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
