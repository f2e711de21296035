"""Every setting as a flag and as an environment variable; the table is settings.table's."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from slackwater.settings.spelling import flag_of
from slackwater.settings.table import SETTINGS, row

_Command = TypeVar("_Command", bound=Callable[..., Any])


def settings_options(command: _Command) -> _Command:
    """Their texts are checked with the settings file's, so that all complaints read alike."""
    for setting in reversed(SETTINGS):
        shown = row(setting)
        command = click.option(
            shown.flag,
            metavar=shown.unit.upper(),
            default=None,
            envvar=shown.variable,
            show_envvar=True,
            help=f"{shown.prose.partition('. ')[0].rstrip('.')}. {shown.default}; {shown.bound}.",
        )(command)
    return command


def texts_of(said: Mapping[str, str | None]) -> dict[str, str]:
    """What was said, by the setting's name."""
    names = {flag_of(each)[2:].replace("-", "_"): each.name for each in SETTINGS}
    return {names[word]: text for word, text in said.items() if text is not None}
