"""The machine as text: a character for each CPU, core by core, in lines for each cache.

A CPU that a container holds alone shows that container's capital letter, one of a container that
shares its CPUs a small one; a legend says whose they are. More than 26 containers have two letters
each. It fits any width: caches stand side by side where there is room, and cores go on in the next
line where there is none.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from rich.text import Text

from slackwater.model.cpus import CpuPolicy, CpuSet
from slackwater.record.cpu_map import ContainerCpus, CpuMap, CpuRow

RESERVED, EVERYBODY, SEVERAL = "#", "·", "+"
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_COLOURS = ("green", "cyan", "magenta", "yellow", "blue", "red")
_INDENT, _BETWEEN = "  ", "   "


class Code(msgspec.Struct, frozen=True):
    """What stands for a container in the picture."""

    text: str
    style: str


def codes_of(found: CpuMap) -> dict[str, Code]:
    """By the titles of the containers with CPUs of their own, in the order of the map."""
    alone = [each.title() for each in of_policy(found, CpuPolicy.EXCLUSIVE)]
    shared = [each.title() for each in of_policy(found, CpuPolicy.SHARE)]
    length = 1 if len(alone) + len(shared) <= len(_LETTERS) else 2
    names = itertools.cycle(map("".join, itertools.product(_LETTERS, repeat=length)))
    colours = itertools.cycle(_COLOURS)
    codes = {title: Code(next(names).capitalize(), f"bold {next(colours)}") for title in alone}
    return codes | {title: Code(next(names), next(colours)) for title in shared}


def of_policy(found: CpuMap, policy: CpuPolicy) -> tuple[ContainerCpus, ...]:
    return tuple(each for each in found.containers if each.policy == policy.value)


def draw_machine(found: CpuMap, codes: Mapping[str, Code], width: int) -> Iterator[Text]:
    """A heading for each socket, and below it its caches."""
    length = max((len(code.text) for code in codes.values()), default=1)
    sockets = {
        heading: [
            _Part(_label(cpus, heading), list(_cells(cpus, codes, length)))
            for cpus in _caches(rows)
        ]
        for heading, rows in _sockets(found)
    }
    label = max(len(part.label) for parts in sockets.values() for part in parts)
    for heading, parts in sockets.items():
        yield Text(heading.text(), "bold")
        yield from _lay_out(parts, label, width)


class _Heading(msgspec.Struct, frozen=True):
    socket: int
    nodes: tuple[int, ...]

    def text(self) -> str:
        word = "node" if len(self.nodes) == 1 else "nodes"
        return f"socket {self.socket}, NUMA {word} {', '.join(map(str, self.nodes))}"


def _sockets(found: CpuMap) -> Iterator[tuple[_Heading, list[CpuRow]]]:
    ordered = sorted(found.cpus, key=_place)
    for socket, inside in itertools.groupby(ordered, key=lambda row: row.socket):
        rows = list(inside)
        yield _Heading(socket, tuple(sorted({row.numa for row in rows}))), rows


def _place(row: CpuRow) -> tuple[int, int, int, int, int]:
    return row.socket, row.numa, row.l3, row.core, row.cpu


def _caches(rows: Iterable[CpuRow]) -> Iterator[list[CpuRow]]:
    for _, inside in itertools.groupby(rows, key=lambda row: (row.numa, row.l3)):
        yield list(inside)


class _Part(msgspec.Struct, frozen=True):
    """One cache: its label, and a cell for each core."""

    label: str
    cells: list[Text]


def _label(rows: Sequence[CpuRow], heading: _Heading) -> str:
    numa = f" NUMA {rows[0].numa}" if len(heading.nodes) > 1 else ""
    cpus = CpuSet.of(row.cpu for row in rows).format()
    return f"L3 {rows[0].l3}{numa}  {cpus}"


def _cells(rows: Iterable[CpuRow], codes: Mapping[str, Code], length: int) -> Iterator[Text]:
    """The threads of a core side by side."""
    for _, threads in itertools.groupby(rows, key=lambda row: row.core):
        cell = Text()
        for row in threads:
            code = _code(row, codes)
            cell.append(code.text.ljust(length), code.style)
        yield cell


def _code(row: CpuRow, codes: Mapping[str, Code]) -> Code:
    if row.exclusive is not None:
        return codes[row.exclusive]
    if len(row.shared) > 1:
        return Code(SEVERAL, "")
    if row.shared:
        return codes[row.shared[0]]
    return Code(RESERVED, "red") if row.reserved else Code(EVERYBODY, "dim")


def _lay_out(parts: Sequence[_Part], label: int, width: int) -> Iterator[Text]:
    """As many caches in a line as fit, their labels and cells aligned."""
    cells = max(_cells_width(part.cells) for part in parts)
    one = label + len(_INDENT) + cells
    room = width - len(_INDENT)
    if one > room:
        for part in parts:
            yield from _folded(part, label, room)
        return
    across = (room + len(_BETWEEN)) // (one + len(_BETWEEN))
    for start in range(0, len(parts), across):
        line = Text(no_wrap=True)
        for place, part in enumerate(parts[start : start + across]):
            line.append(_BETWEEN if place else _INDENT)
            line.append(part.label.ljust(label), "dim").append(_INDENT)
            line.append_text(_joined(part.cells))
            line.append(" " * (cells - _cells_width(part.cells)))
        yield line


def _folded(part: _Part, label: int, room: int) -> Iterator[Text]:
    """A cache whose cores need more than one line; a label that is too long has its own."""
    step = part.cells[0].cell_len + 1 if part.cells else 1
    if label > room // 2:
        yield Text(f"{_INDENT}{part.label}", "dim", no_wrap=True, overflow="ellipsis")
        label = 0
    each = max((room - label - len(_INDENT)) // step, 1)
    for start in range(0, len(part.cells), each):
        head = part.label if label and not start else ""
        line = Text(_INDENT, no_wrap=True).append(head.ljust(label), "dim").append(_INDENT)
        yield line.append_text(_joined(part.cells[start : start + each]))


def _joined(cells: Iterable[Text]) -> Text:
    return Text(" ").join(cells)


def _cells_width(cells: Sequence[Text]) -> int:
    return sum(cell.cell_len for cell in cells) + len(cells) - 1
