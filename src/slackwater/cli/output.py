"""Output of commands: -o, --no-color, JSON and YAML, and errors as one sentence on stderr."""

import enum
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec

_Command = TypeVar("_Command", bound=Callable[..., Any])


class Output(enum.StrEnum):
    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


def output_options(command: _Command) -> _Command:
    """-o and --no-color, alike for every command."""
    output = click.option(
        "-o",
        "--output",
        type=click.Choice([output.value for output in Output]),
        default=Output.TABLE.value,
        callback=lambda _context, _parameter, value: Output(value),
        show_default=True,
        envvar="SLACKWATER_OUTPUT",
        show_envvar=True,
        help="table for people, wide with every detail; json and yaml are stable, for scripts.",
    )
    colour = click.option(
        "--no-color",
        is_flag=True,
        envvar="SLACKWATER_NO_COLOR",
        show_envvar=True,
        help="No colour. NO_COLOR does the same.",
    )
    return output(colour(command))


def print_data(value: Any, output: Output) -> None:  # noqa: ANN401 - any msgspec Struct
    """The stable form, on stdout."""
    if output is Output.YAML:
        import yaml

        class Dumper(yaml.SafeDumper):
            """Texts of several lines, such as a ConfigMap's, stand as they are."""

        Dumper.add_representer(str, _represent_text)
        plain = msgspec.to_builtins(value)
        text = yaml.dump(plain, Dumper=Dumper, sort_keys=False, allow_unicode=True)
    else:
        text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"
    click.echo(text, nl=False)


def _represent_text(dumper: Any, text: str) -> Any:  # noqa: ANN401 - yaml is imported late
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def wants_colour(no_color: bool) -> bool:
    return not no_color and not os.environ.get("NO_COLOR") and sys.stdout.isatty()


class Failed(click.ClickException):
    """One sentence on stderr, exit code 1."""

    def show(self, file: Any = None) -> None:  # noqa: ANN401 - click's own signature
        click.echo(f"slackwater: {self.message}", file=file, err=True)


class WrongSettings(Failed):
    """One sentence on stderr, exit code 2."""

    exit_code = 2
