"""Times of the agent's answers for people: how long ago, or at which time of day here."""

import datetime as dt

_STEPS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def moment(stamp: str) -> dt.datetime | None:
    """RFC 3339 back into a time; None where it is not."""
    try:
        found = dt.datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)


def lasted(stamp: str, now: dt.datetime) -> str:
    """From then to now, in its largest unit: 12 s, 3 min, 2 h, 4 d. Clocks that disagree: 0 s."""
    then = moment(stamp)
    if then is None:
        return "an unknown time"
    seconds = max(int((now - then).total_seconds()), 0)
    return next(
        (f"{seconds // size} {unit}" for size, unit in _STEPS if seconds >= size), None
    ) or (f"{seconds} s")


def clock_time(stamp: str, zone: dt.tzinfo | None = None) -> str:
    """The time of day, here unless another zone is named: 12:00:01."""
    then = moment(stamp)
    return then.astimezone(zone).strftime("%H:%M:%S") if then else stamp
