"""Every setting of the rebalancer as a flag, with its variables, its default and its bound.

The texts are checked as the file's values are, so that all problems read alike.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click
from msgspec import inspect

from slackwater.cli.cluster_options import access_options
from slackwater.contract.rebalancer_environment import VARIABLES
from slackwater.contract.schema import pair_types
from slackwater.settings.rebalancer_document import SETTINGS
from slackwater.settings.setting import Setting

_Command = TypeVar("_Command", bound=Callable[..., Any])


def variables_of(setting: Setting) -> tuple[str, ...]:
    """Ours first; it wins."""
    original = VARIABLES.get(setting.key)
    return (setting.variable,) if original is None else (setting.variable, original)


def rotation_options(command: _Command) -> _Command:
    """All of them, the file and the cluster."""
    for setting in reversed(SETTINGS):
        command = _option(setting)(command)
    file = click.option(
        "--file",
        metavar="FILE",
        default="",
        envvar="SLACKWATER_REBALANCE_FILE",
        show_envvar=True,
        help="A RebalancerSettings document: defaults and a list of workloads.",
    )
    return file(access_options(command))


def option_help(setting: Setting) -> str:
    names = " or ".join(variables_of(setting))
    told = f"{setting.summary} Default: {setting.default}. Bound: {setting.bound}."
    return f"{told} [env: {names}]"


def _option(setting: Setting) -> Callable[[_Command], _Command]:
    help_text = option_help(setting)
    if isinstance(setting.annotation.type, inspect.BoolType):
        negated = f"--no-{setting.flag.removeprefix('--')}"
        return click.option(f"{setting.flag}/{negated}", default=None, help=help_text)
    short = ("-n",) if setting.key == "namespace" else ()
    return click.option(
        *short, setting.flag, metavar=_metavar(setting), default=None, help=help_text
    )


def _metavar(setting: Setting) -> str:
    kind = setting.annotation.type
    if isinstance(kind, inspect.IntType):
        return setting.unit.upper()
    if pair_types(kind):
        return "NAME=VALUE,..."
    last = setting.flag.rpartition("-")[2].upper()
    return "LIST" if isinstance(kind, inspect.VarTupleType) else last


def texts_of(said: Mapping[str, str | bool | None]) -> dict[str, str]:
    """What flags say, by the setting's key; `said` as click hands it over."""
    keys = {each.option: each.key for each in SETTINGS}
    return {
        keys[option]: str(text).lower() if isinstance(text, bool) else text
        for option, text in said.items()
        if text is not None
    }
