"""Amounts as the page writes them: milliCPU, cores, percent, GiB; a dash for what is not known."""

UNKNOWN = "–"
_MILLI = 1000
_GIB = 1 << 30


def format_milli(value: int | str | None) -> str:
    """600m; 12.5 from ten cores on; unlimited."""
    if value is None:
        return UNKNOWN
    if isinstance(value, str):
        return value
    return f"{value}m" if abs(value) < 10 * _MILLI else f"{value / _MILLI:.1f}"


def format_cores(value: float | None) -> str:
    """1.20; three digits of small amounts."""
    if value is None:
        return UNKNOWN
    return f"{value:.2f}" if value >= 0.1 or value == 0 else f"{value:.3f}"


def format_percent(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return f"{value:.0f} %" if value >= 10 or value == 0 else f"{value:.1f} %"


def format_resource(resource: str, value: float | None) -> str:
    """Of a predicted or offered resource: cores, milliCPU or GiB."""
    if value is None:
        return UNKNOWN
    if resource.endswith("memory"):
        return f"{value / _GIB:.1f} GiB"
    return f"{value:.0f}m" if resource.endswith("batch-cpu") else f"{value:.2f} cores"


def share(part: int | None, whole: int | None) -> float | None:
    """In percent, at most 100; None where one is not known."""
    if part is None or not whole:
        return None
    return min(max(100 * part / whole, 0.0), 100.0)
