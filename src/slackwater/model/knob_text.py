"""How the kernel spells a knob's value: encode, decode, and what a value settles to.

The only place that knows "-1", "max" and page rounding. A bandwidth is one text in both
versions, "quota period"; on v1 the edge spreads it over two files.
"""

from slackwater.model.cgroup import CgroupVersion
from slackwater.model.cpus import CpuListError, CpuSet
from slackwater.model.gap import Gap
from slackwater.model.knob import LARGEST_MEMORY, Encoding, Knob, KnobFile, KnobValue
from slackwater.model.units import DEFAULT_PERIOD, UNLIMITED, Bandwidth, Micros, Unlimited

#: The page size of most nodes; the edge passes the real one (arm64 also has 16 and 64 KiB).
COMMON_PAGE = 4096
#: Longer digit strings are no 64-bit number, and int() on megabytes of digits takes forever.
_LONGEST_NUMBER = 20
#: v1 shows "no limit" as the largest page-aligned number: 2^63 less one page, of whatever size.
_V1_UNLIMITED_FROM = 2**63 - 2**20


class KnobRangeError(ValueError):
    """A value that this knob cannot hold; str() is one sentence with the bound."""


def encode(knob: Knob, version: CgroupVersion, value: KnobValue) -> str:
    """The text to write. Raises KnobRangeError where the kernel would refuse or clamp."""
    match knob.file(version):
        case Gap(reason):
            raise KnobRangeError(reason)
        case file:
            return _encode(knob, file, value)


def _encode(knob: Knob, file: KnobFile, value: KnobValue) -> str:
    match value:
        case Bandwidth() if knob.encoding is Encoding.BANDWIDTH:
            return f"{_number(knob, file, value.limit)} {value.period}"
        case CpuSet() if knob.encoding is Encoding.CPU_LIST:
            return value.format()
        case bool() if knob.encoding is Encoding.FLAG:
            return str(int(value))
        case int() | Unlimited() if knob.encoding in (Encoding.NUMBER, Encoding.PAGES):
            return _number(knob, file, value)
        case _:
            raise KnobRangeError(f"{value!r} is no value for {knob.name} ({file.name})")


def _number(knob: Knob, file: KnobFile, value: int | Unlimited) -> str:
    if isinstance(value, Unlimited):
        if file.unlimited is None:
            raise KnobRangeError(f"{knob.name} ({file.name}) has no unlimited value")
        return file.unlimited
    if not file.low <= value <= file.high:
        raise KnobRangeError(
            f"{knob.name} ({file.name}) is {value}; it must lie in {file.low}..{file.high}"
        )
    return str(value)


def decode(knob: Knob, version: CgroupVersion, text: str) -> KnobValue | Gap:
    """The value behind a text that was read. Garbage is a Gap that quotes it."""
    match knob.file(version):
        case Gap() as gap:
            return gap
        case file:
            found = _decode(knob, file, text)
            if found is None:
                return Gap(f"{file.name} holds {text[:40]!r}, which is no {knob.encoding.value}")
            return found


def _decode(knob: Knob, file: KnobFile, text: str) -> KnobValue | None:
    words = text.split(None, 3) if len(text) < 4096 else []
    match knob.encoding:
        case Encoding.CPU_LIST:
            return _cpu_list(text)
        case Encoding.BANDWIDTH:
            return _bandwidth(file, words)
        case Encoding.FLAG:
            return {"0": False, "1": True}.get(text.strip())
        case Encoding.NUMBER | Encoding.PAGES:
            return _limit(file, words[0]) if len(words) == 1 else None


def _cpu_list(text: str) -> CpuSet | None:
    try:
        return CpuSet.parse(text)
    except CpuListError:
        return None


def _bandwidth(file: KnobFile, words: list[str]) -> Bandwidth | None:
    limit = _limit(file, words[0]) if words else None
    period = whole_number(words[1]) if len(words) == 2 else DEFAULT_PERIOD
    if limit is None or not period or period < 0 or len(words) > 2:
        return None
    return Bandwidth(UNLIMITED if isinstance(limit, Unlimited) else Micros(limit), Micros(period))


def _limit(file: KnobFile, word: str) -> int | Unlimited | None:
    if word == file.unlimited:
        return UNLIMITED
    number = whole_number(word)
    if number is not None and file.unlimited == "-1" and number >= _V1_UNLIMITED_FROM:
        return UNLIMITED
    return number


def whole_number(word: str) -> int | None:
    """An ASCII integer of at most 64 bits, or None: int() alone takes "1_0", "٣" and " 7 "."""
    digits = word.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > _LONGEST_NUMBER:
        return None
    return int(word)


def settle_in_file(knob: Knob, value: KnobValue, page: int = COMMON_PAGE) -> KnobValue:
    """What the kernel will show after this value is written: memory in whole pages, of which the
    largest number (PAGE_COUNTER_MAX) means no limit."""
    if knob.encoding is Encoding.PAGES and isinstance(value, int):
        if value // page >= LARGEST_MEMORY // page:
            return UNLIMITED
        return value - value % page
    return value
