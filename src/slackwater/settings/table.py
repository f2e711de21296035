"""Every setting as a row: what --help and docs/reference/settings.md show.

Owns the page. The page in docs is a copy of
`page()`; a test compares them.
"""

import msgspec

from slackwater.settings.bound import Bound
from slackwater.settings.document import PARTS
from slackwater.settings.resource_name import ResourceName
from slackwater.settings.section import Setting
from slackwater.settings.spelling import flag_of, variable_of

SETTINGS: tuple[Setting, ...] = tuple(
    setting for part in PARTS.values() for setting in part.SECTION.values()
)

_HEAD = """\
# Settings

Every setting of the agent. It can be said three ways, and the first of them wins: as a flag, as
an environment variable, as a key in the settings file. Durations are written `500ms`, `1s`,
`1m30s`. A value outside its bound is refused with one sentence and exit code 2 at start, and with
a warning later, when the last good settings stay.

This page is written by `slackwater.settings.table`; change the prose there.

| key | flag | variable | default | bound | unit |
|---|---|---|---|---|---|
"""


class Row(msgspec.Struct, frozen=True):
    """One setting as text."""

    name: str
    flag: str
    variable: str
    default: str
    bound: str
    unit: str
    prose: str


def row(setting: Setting) -> Row:
    match setting:
        case Bound():
            default, unit = setting.shown(setting.default), setting.unit.value
        case ResourceName():
            default, unit = setting.default, "name"
        case _:
            default, unit = str(setting.default).lower(), "word"
    flag, variable = flag_of(setting), variable_of(setting)
    return Row(setting.name, flag, variable, default, setting.span(), unit, setting.prose)


def page() -> str:
    """docs/reference/settings.md."""
    rows = [row(setting) for setting in SETTINGS]
    table = "".join(
        f"| `{each.name}` | `{each.flag}` | `{each.variable}` "
        f"| {each.default} | {each.bound} | {each.unit} |\n"
        for each in rows
    )
    prose = "".join(f"\n**`{each.name}`** {each.prose}\n" for each in rows)
    return _HEAD + table + "\n## What they do\n" + prose
