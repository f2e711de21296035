"""Every setting as a flag and as an environment variable; the rows are settings.setting's."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from slackwater.policies.catalog import SETTINGS
from slackwater.settings.setting import Setting

_Command = TypeVar("_Command", bound=Callable[..., Any])


def settings_options(command: _Command, rows: Sequence[Setting] = SETTINGS.rows) -> _Command:
    """Their texts are checked as the settings file is, so that all problems read alike."""
    for setting in reversed(rows):
        command = click.option(
            setting.flag,
            metavar=setting.unit.upper(),
            default=None,
            envvar=setting.variable,
            show_envvar=True,
            help=f"{setting.summary} {setting.default}; {setting.bound}.",
        )(command)
    return command


def texts_of(
    said: Mapping[str, str | None], rows: Sequence[Setting] = SETTINGS.rows
) -> dict[str, str]:
    """What was said, by the setting's key."""
    keys = {each.option: each.key for each in rows}
    return {keys[option]: text for option, text in said.items() if text is not None}
