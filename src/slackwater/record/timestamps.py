"""RFC 3339 timestamps for people: how long ago, or at which time of day."""

import datetime as dt

_STEPS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def moment(stamp: str) -> dt.datetime | None:
    """RFC 3339 back into a time; None where it is not."""
    try:
        found = dt.datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)


def age(stamp: str | None, now: dt.datetime) -> dt.timedelta | None:
    """From then to now; None where there is no such time."""
    then = moment(stamp) if stamp else None
    return None if then is None else now - then


def span(length: dt.timedelta) -> str:
    """In its largest unit: 12 s, 3 min, 2 h, 4 d. Clocks that disagree: 0 s."""
    seconds = max(int(length.total_seconds()), 0)
    largest = next((step for step in _STEPS if seconds >= step[0]), (1, "s"))
    return f"{seconds // largest[0]} {largest[1]}"


def lasted(stamp: str, now: dt.datetime) -> str:
    """From then to now."""
    length = age(stamp, now)
    return "an unknown time" if length is None else span(length)


def clock_time(stamp: str, zone: dt.tzinfo | None = None) -> str:
    """The time of day, here unless another zone is named: 12:00:01."""
    then = moment(stamp)
    return then.astimezone(zone).strftime("%H:%M:%S") if then else stamp
