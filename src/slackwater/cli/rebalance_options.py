"""Every setting of the rebalancer as a flag, with its variables, its default and its bound.

Owns how they are shown: --help, and the table in docs/reference/rebalance.md. The texts are
checked with the file's and the variables', so that all problems read alike.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from slackwater.cli.cluster_options import access_options
from slackwater.contract.rebalancer import DEFAULTS, VARIABLES
from slackwater.settings.bound import Bound
from slackwater.settings.choice import Flag
from slackwater.settings.rotation_document import ENTRIES
from slackwater.settings.rotation_entry import Entry
from slackwater.settings.wording import Listing, Pairs

_Command = TypeVar("_Command", bound=Callable[..., Any])
_METAVARS: Mapping[type, str] = {Listing: "LIST", Pairs: "NAME=VALUE,..."}


def variables_of(entry: Entry) -> tuple[str, ...]:
    """Ours first; it wins."""
    original = VARIABLES.get(entry.key)
    return (entry.variable,) if original is None else (entry.variable, original)


def rotation_options(command: _Command) -> _Command:
    """All of them, the file and the cluster."""
    for entry in reversed(ENTRIES):
        command = _option(entry)(command)
    file = click.option(
        "--file",
        metavar="FILE",
        default="",
        envvar="SLACKWATER_REBALANCE_FILE",
        show_envvar=True,
        help="A RebalancerSettings document: defaults and a list of workloads.",
    )
    return file(access_options(command))


def _option(entry: Entry) -> Callable[[_Command], _Command]:
    said = f"{entry.setting.prose.partition('. ')[0].rstrip('.')}."
    names = " or ".join(variables_of(entry))
    help_text = f"{said} Default: {entry.default()}. Bound: {entry.setting.span()}. [env: {names}]"
    if isinstance(entry.setting, Flag):
        negated = f"--no-{entry.flag.removeprefix('--')}"
        return click.option(f"{entry.flag}/{negated}", default=None, help=help_text)
    short = ("-n",) if entry.key == "namespace" else ()
    return click.option(*short, entry.flag, metavar=_metavar(entry), default=None, help=help_text)


def _metavar(entry: Entry) -> str:
    if isinstance(entry.setting, Bound):
        return entry.setting.unit.value.upper()
    return _METAVARS.get(type(entry.setting), entry.flag.rpartition("-")[2].upper())


def texts_of(said: Mapping[str, str | bool | None]) -> dict[str, str]:
    """What flags say, by the setting's key; `said` as click hands it over."""
    names = {entry.flag[2:].replace("-", "_"): entry.key for entry in ENTRIES}
    return {
        names[word]: str(text).lower() if isinstance(text, bool) else text
        for word, text in said.items()
        if text is not None
    }


def settings_table() -> str:
    """The generated part of docs/reference/rebalance.md."""
    head = "| key | flag | variables | default | bound |\n|---|---|---|---|---|\n"
    return head + "".join(_row(entry) for entry in ENTRIES)


def settings_prose() -> str:
    return "\n".join(f"**`{entry.key}`** {entry.setting.prose}\n" for entry in ENTRIES)


def _row(entry: Entry) -> str:
    names = ", ".join(f"`{name}`" for name in reversed(variables_of(entry)))
    default = entry.default()
    if entry.key in DEFAULTS:
        default += f"; with `DEPLOYMENT_NAME`: {DEFAULTS[entry.key]}"
    return f"| `{entry.key}` | `{entry.flag}` | {names} | {default} | {entry.setting.span()} |\n"
