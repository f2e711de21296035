"""Sets of CPUs in the kernel's list format, the machine's topology, and who asks for CPUs of it."""

import enum
import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

#: CONFIG_NR_CPUS is at most 8192 on any architecture today; a larger number is garbage, and
#: expanding it ("0-4294967295") would eat the node's memory.
LARGEST_CPU = 8191
_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", re.ASCII)


class CpuListError(ValueError):
    """A text that is not a CPU list; str() is one sentence with the text in it."""


class CpuSet(msgspec.Struct, frozen=True, tag="cpus"):
    """A set of CPU numbers, kept as a bit mask: equality, union and nesting are exact."""

    mask: int = 0

    @classmethod
    def of(cls, cpus: Iterable[int]) -> "CpuSet":
        mask = 0
        for cpu in cpus:
            mask |= 1 << cpu
        return cls(mask)

    @classmethod
    def parse(cls, text: str) -> "CpuSet":
        """The kernel's list format: "0-3,8", "" and "\\n" are the empty set."""
        mask = 0
        stripped = text.strip()
        for part in stripped.split(",") if stripped else ():
            match = _RANGE.fullmatch(part.strip())
            first = int(match[1]) if match else -1
            last = int(match[2]) if match and match[2] else first
            if not 0 <= first <= last <= LARGEST_CPU:
                raise CpuListError(
                    f"{text[:80]!r} is not a CPU list such as 0-3,8 (CPUs 0 to {LARGEST_CPU})"
                )
            mask |= ((1 << (last - first + 1)) - 1) << first
        return cls(mask)

    def format(self) -> str:
        """The kernel's list format, ranges joined, ascending."""
        parts: list[str] = []
        mask, base = self.mask, 0
        while mask:
            skip = (mask & -mask).bit_length() - 1
            mask, base = mask >> skip, base + skip
            run = (~mask & (mask + 1)).bit_length() - 1
            parts.append(str(base) if run == 1 else f"{base}-{base + run - 1}")
            mask, base = mask >> run, base + run
        return ",".join(parts)

    def __iter__(self) -> Iterator[int]:
        mask = self.mask
        while mask:
            low = mask & -mask
            yield low.bit_length() - 1
            mask ^= low

    def __len__(self) -> int:
        return self.mask.bit_count()

    def __contains__(self, cpu: int) -> bool:
        return bool(self.mask >> cpu & 1)

    def __or__(self, other: "CpuSet") -> "CpuSet":
        return CpuSet(self.mask | other.mask)

    def __and__(self, other: "CpuSet") -> "CpuSet":
        return CpuSet(self.mask & other.mask)

    def __sub__(self, other: "CpuSet") -> "CpuSet":
        return CpuSet(self.mask & ~other.mask)

    def within(self, other: "CpuSet") -> bool:
        return not self.mask & ~other.mask


class Cpu(msgspec.Struct, frozen=True):
    """One logical CPU and where it sits. `core` is unique only inside its package; `cache` is the
    lowest CPU of those that share its last-level cache, itself where nobody tells."""

    number: int
    core: int
    package: int
    node: int
    cache: int = 0


class Topology(msgspec.Struct, frozen=True, tag="topology"):
    """The online CPUs, ascending by number."""

    cpus: tuple[Cpu, ...]

    def all(self) -> CpuSet:
        return CpuSet.of(cpu.number for cpu in self.cpus)

    def siblings(self, number: int) -> CpuSet:
        """The hyper-threads of one core, the CPU itself included."""
        mine = next(cpu for cpu in self.cpus if cpu.number == number)
        return CpuSet.of(
            cpu.number for cpu in self.cpus if (cpu.package, cpu.core) == (mine.package, mine.core)
        )

    def cores(self) -> int:
        return len({(cpu.package, cpu.core) for cpu in self.cpus})

    def packages(self) -> int:
        return len({cpu.package for cpu in self.cpus})

    def caches(self) -> int:
        """How many last-level caches there are."""
        return len({cpu.cache for cpu in self.cpus})

    def nodes(self) -> tuple[int, ...]:
        return tuple(sorted({cpu.node for cpu in self.cpus}))


class CpuPolicy(enum.Enum):
    """Which CPUs a container runs on: every one that nobody holds alone; its own, which others may
    use as well; its own alone."""

    NONE = "none"
    SHARE = "share"
    EXCLUSIVE = "exclusive"


class KubeletCpus(msgspec.Struct, frozen=True, tag="kubelet"):
    """The kubelet's own CPU manager: its policy, and what it gave to containers, by pod uid and
    container name. Under the policy none it gives nothing."""

    policy: str
    assigned: Mapping[str, Mapping[str, CpuSet]] = {}

    def all_assigned(self) -> CpuSet:
        mask = 0
        for containers in self.assigned.values():
            for cpus in containers.values():
                mask |= cpus.mask
        return CpuSet(mask)
