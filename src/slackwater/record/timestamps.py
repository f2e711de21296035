"""RFC 3339 timestamps: formatted, parsed, and shown as an age or a time of day."""

import datetime as dt

from slackwater.model.units import Micros, format_age

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def format_timestamp(since_1970: Micros) -> str:
    """In UTC, to the millisecond."""
    moment = _EPOCH + dt.timedelta(microseconds=since_1970)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_timestamp(stamp: str) -> dt.datetime | None:
    """None if it is not a timestamp; UTC if it has no time zone."""
    try:
        found = dt.datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)


def time_since(stamp: str | None, now: dt.datetime) -> dt.timedelta | None:
    """None if it is not a timestamp."""
    then = parse_timestamp(stamp) if stamp else None
    return None if then is None else now - then


def format_timedelta(length: dt.timedelta) -> str:
    """In its largest unit: 12 s, 3 min, 2 h, 4 d."""
    return format_age(Micros(length // dt.timedelta(microseconds=1)))


def describe_age(stamp: str, now: dt.datetime) -> str:
    """How long ago that was: 3 min."""
    length = time_since(stamp, now)
    return "an unknown time" if length is None else format_timedelta(length)


def time_of_day(stamp: str, zone: dt.tzinfo | None = None) -> str:
    """12:00:01, in the local time zone unless another is given."""
    then = parse_timestamp(stamp)
    return then.astimezone(zone).strftime("%H:%M:%S") if then else stamp
