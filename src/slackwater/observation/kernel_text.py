"""Bytes of kernel files into numbers. Pure: opens nothing, raises nothing.

Every function takes what was read and gives the value, or a Gap that quotes what stood there.
Input is bounded before it is looked at, so that a file of megabytes costs no more than a page.
"""

import re

from slackwater.model.cgroup import CpuPressure, CpuTimes, PressureLine
from slackwater.model.cpus import CpuListError, CpuSet
from slackwater.model.gap import Gap
from slackwater.model.knob_text import whole_number
from slackwater.model.machine import CpuTicks, MachineTicks, Processor
from slackwater.model.units import Bytes, Micros

# Where x86 has names, /proc/cpuinfo of arm64 has numbers. Ids as in
# arch/arm64/include/asm/cputype.h and util-linux's sys-utils/lscpu-arm.c: the server parts that
# run Kubernetes nodes, and the boards people test on. Others keep their numbers.
_VENDORS: dict[int, str] = {
    0x41: "ARM",
    0x42: "Broadcom",
    0x43: "Cavium",
    0x46: "Fujitsu",
    0x48: "HiSilicon",
    0x4E: "NVIDIA",
    0x50: "APM",
    0x51: "Qualcomm",
    0x61: "Apple",
    0x6D: "Microsoft",
    0xC0: "Ampere",
}
_MODELS: dict[tuple[int, int], str] = {
    (0x41, 0xD03): "Cortex-A53",
    (0x41, 0xD07): "Cortex-A57",
    (0x41, 0xD08): "Cortex-A72",
    (0x41, 0xD0B): "Cortex-A76",
    (0x41, 0xD0C): "Neoverse-N1",
    (0x41, 0xD40): "Neoverse-V1",
    (0x41, 0xD49): "Neoverse-N2",
    (0x41, 0xD4F): "Neoverse-V2",
    (0x41, 0xD84): "Neoverse-V3",
    (0x41, 0xD8E): "Neoverse-N3",
    (0x43, 0x0AF): "ThunderX2",
    (0x46, 0x001): "A64FX",
    (0x48, 0xD01): "TaiShan-v110",
    (0x48, 0xD02): "TaiShan-v120",
    (0x6D, 0xD49): "Azure-Cobalt-100",
    (0xC0, 0xAC3): "Ampere-1",
    (0xC0, 0xAC4): "Ampere-1a",
}


def arm_vendor(implementer: int) -> str:
    return _VENDORS.get(implementer, f"implementer {implementer:#04x}")


def arm_model(implementer: int, part: int) -> str:
    known = _MODELS.get((implementer, part))
    return f"{arm_vendor(implementer)} {known or f'part {part:#05x}'}"


#: cpu.stat, PSI and single numbers are a few hundred bytes; a page is the seq_file's own unit.
LONGEST_COUNTERS = 4096
#: Every second one of 8192 CPUs is 20 KiB of text.
LONGEST_CPU_LIST = 32 * 1024
#: One processor of /proc/cpuinfo is about 2 KiB; the first one speaks for all.
LONGEST_PROCESSOR = 64 * 1024
#: 8192 cpu lines of at most 128 bytes; interrupts and the rest come after them.
LONGEST_TICKS = 1024 * 1024
_LONGEST_QUOTE = 40
_NANOS_PER_MICRO = 1000
#: 2^64 - 1 has 20 digits.
_LONGEST_NUMBER = 20

# show_cpuinfo in arch/{x86,arm64}/kernel: "key<tabs>: value".
_PROCESSOR_LINE = re.compile(rb"^([A-Za-z_ ]{1,40}?)[ \t]*:[ \t]*([^\n]{0,200})", re.MULTILINE)
# psi_show in kernel/sched/psi.c: LOAD_INT and a LOAD_FRAC of two digits.
_PRESSURE_LINE = re.compile(
    r"(some|full) avg10=([0-9]{1,3})\.([0-9]{2}) avg60=([0-9]{1,3})\.([0-9]{2})"
    r" avg300=([0-9]{1,3})\.([0-9]{2}) total=([0-9]{1,20})",
    re.ASCII,
)
_CPU_LINE = re.compile(r"cpu([0-9]{0,4})", re.ASCII)
_MEMORY_TOTAL = re.compile(rb"(?:^|\n|Node [0-9]{1,4} )MemTotal:[ \t]*([0-9]{1,15}) kB")
_MASK = re.compile(r"[0-9a-fA-F]{1,16}", re.ASCII)
_BYTES_PER_KB = 1024
#: What a CPU's model or vendor is called where nobody says it; Koordinator's word.
UNKNOWN = "unknown"


def garbage(name: str, text: bytes) -> Gap:
    """The Gap for a text that is not what its file should hold."""
    quote = text[:_LONGEST_QUOTE].decode("ascii", "replace")
    return Gap(f"{name} holds {quote!r}, which makes no sense there")


def number(name: str, text: bytes) -> int | Gap:
    """A file with one whole number in it."""
    found = _single(text)
    return garbage(name, text) if found is None else found


def flag(name: str, text: bytes) -> bool | Gap:
    """A file with 0 or 1 in it."""
    found = _single(text)
    return bool(found) if found in (0, 1) else garbage(name, text)


def cpu_list(name: str, text: bytes) -> CpuSet | Gap:
    """A file in the kernel's list format; empty is the empty set."""
    if len(text) > LONGEST_CPU_LIST:
        return garbage(name, text)
    try:
        return CpuSet.parse(text.decode("ascii", "replace"))
    except CpuListError:
        return garbage(name, text)


def usage_v1(text: bytes) -> Micros | Gap:
    """cpuacct.usage, which is in nanoseconds. bytes.isdigit takes ASCII digits alone."""
    digits = text[:-1] if text[-1:] == b"\n" else text
    if len(digits) > _LONGEST_NUMBER or not digits.isdigit():
        return garbage("cpuacct.usage", text)
    return Micros(int(digits) // _NANOS_PER_MICRO)


def times_v1(stat: bytes, usage: bytes) -> CpuTimes | Gap:
    """cpu.stat (times in nanoseconds) with cpuacct.usage. Before Linux 5.14 it has no bursts."""
    used = usage_v1(usage)
    return used if isinstance(used, Gap) else stat_v1(stat, used)


def stat_v1(stat: bytes, used: Micros) -> CpuTimes | Gap:
    counters = _counters(stat)
    if counters is None or b"nr_periods" not in counters:
        return garbage("cpu.stat", stat)
    return CpuTimes(
        used,
        counters[b"nr_periods"],
        counters.get(b"nr_throttled", 0),
        Micros(counters.get(b"throttled_time", 0) // _NANOS_PER_MICRO),
        counters.get(b"nr_bursts", 0),
        Micros(counters.get(b"burst_time", 0) // _NANOS_PER_MICRO),
    )


def times_v2(stat: bytes) -> CpuTimes | Gap:
    """cpu.stat. Without the cpu controller it has the usage alone: nothing throttles there."""
    counters = _counters(stat)
    if counters is None or b"usage_usec" not in counters:
        return garbage("cpu.stat", stat)
    return CpuTimes(
        Micros(counters[b"usage_usec"]),
        counters.get(b"nr_periods", 0),
        counters.get(b"nr_throttled", 0),
        Micros(counters.get(b"throttled_usec", 0)),
        counters.get(b"nr_bursts", 0),
        Micros(counters.get(b"burst_usec", 0)),
    )


def usage_v2(stat: bytes) -> Micros | Gap:
    """The usage of cpu.stat alone."""
    times = times_v2(stat)
    return times if isinstance(times, Gap) else times.usage


def pressure(text: bytes) -> CpuPressure | Gap:
    """A PSI file: the some line, and the full line where there is one."""
    lines: dict[str, PressureLine] = {}
    if len(text) <= LONGEST_COUNTERS:
        for line in text.decode("ascii", "replace").removesuffix("\n").split("\n"):
            match = _PRESSURE_LINE.fullmatch(line)
            if match is None:
                return garbage("the pressure file", text)
            lines[match[1]] = _pressure(match)
    some = lines.get("some")
    return CpuPressure(some, lines.get("full")) if some else garbage("the pressure file", text)


def ticks(text: bytes) -> MachineTicks | Gap:
    """The cpu lines of /proc/stat, which come first; a last line that was cut off is left out."""
    total: CpuTicks | None = None
    each: dict[int, CpuTicks] = {}
    for line in text[:LONGEST_TICKS].decode("ascii", "replace").split("\n")[:-1]:
        words = line.split()
        match = _CPU_LINE.fullmatch(words[0]) if words else None
        if match is None:
            break
        found = _ticks(words[1:])
        if found is None:
            return garbage("/proc/stat", line.encode())
        if match[1]:
            each[int(match[1])] = found
        else:
            total = found
    return garbage("/proc/stat", text) if total is None else MachineTicks(total, each)


def processor(text: bytes) -> Processor | Gap:
    """The first processor of /proc/cpuinfo: x86's names, or arm64's ids with the names we know."""
    seen: dict[bytes, str] = {}
    for match in _PROCESSOR_LINE.finditer(text[:LONGEST_PROCESSOR]):
        seen.setdefault(match[1], match[2].decode("ascii", "replace").strip())
    model, vendor = seen.get(b"model name"), seen.get(b"vendor_id")
    implementer, part = _hex(seen.get(b"CPU implementer")), _hex(seen.get(b"CPU part"))
    if implementer is not None and part is not None:
        return Processor(arm_model(implementer, part), arm_vendor(implementer))
    if model:
        return Processor(model, vendor or UNKNOWN)
    return Gap("/proc/cpuinfo names neither a model nor an implementer and a part")


def memory_total(name: str, text: bytes) -> Bytes | Gap:
    """MemTotal of /proc/meminfo, or of a NUMA node's meminfo, whose lines begin with its name."""
    match = _MEMORY_TOTAL.search(text[:LONGEST_PROCESSOR])
    return garbage(name, text) if match is None else Bytes(int(match[1]) * _BYTES_PER_KB)


def cache_mask(name: str, text: bytes) -> str | Gap:
    """A mask of cache ways, in hexadecimal, as resctrl shows it."""
    mask = text.strip().decode("ascii", "replace") if len(text) <= _LONGEST_QUOTE else ""
    return mask if _MASK.fullmatch(mask) else garbage(name, text)


def _single(text: bytes) -> int | None:
    # The longest is "-9223372036854775808\n"; strip() alone would copy megabytes of spaces.
    return whole_number(text.strip().decode("ascii", "replace")) if len(text) <= 32 else None


def _counters(text: bytes) -> dict[bytes, int] | None:
    """Lines of "name value" with values from zero up; None where any line is not one.

    whole_number's rule for all values at once: this runs for every group in every tick.
    """
    if len(text) > LONGEST_COUNTERS:
        return None
    words = text.split()
    values = words[1::2]
    if len(words) != 2 * len(values) or not b"".join(values).isdigit():
        return None
    if len(max(values, key=len)) > _LONGEST_NUMBER:
        return None
    return dict(zip(words[::2], map(int, values), strict=False))


def _pressure(match: re.Match[str]) -> PressureLine:
    avg10, avg60, avg300 = (int(match[i]) * 100 + int(match[i + 1]) for i in (2, 4, 6))
    return PressureLine(avg10, avg60, avg300, Micros(int(match[8])))


def _ticks(words: list[str]) -> CpuTicks | None:
    """user nice system idle [iowait irq softirq steal [guest guest_nice]], of any later length."""
    numbers = [whole_number(word) for word in words[:8]]
    values = [value for value in numbers if value is not None and value >= 0]
    return CpuTicks(*values) if len(values) == len(numbers) and len(values) >= 4 else None


def _hex(text: str | None) -> int | None:
    return int(text, 16) if text and re.fullmatch(r"0x[0-9a-fA-F]{1,8}", text) else None
