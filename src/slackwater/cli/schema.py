"""`slackwater schema`: JSON Schema of the files that people write, for editors and checks."""

import enum
import json

import click


class FileKind(enum.Enum):
    """A kind of file, by its name on the command line."""

    AGENT_SETTINGS = "agent-settings"
    SCENARIO = "scenario"


@click.command()
@click.argument("kind", type=click.Choice([each.value for each in FileKind], case_sensitive=False))
def schema(kind: str) -> None:
    """Print the JSON Schema (2020-12) of a KIND of file.

    An editor with it completes keys, shows what they do and marks what would be refused. Rules
    between fields are not in it; the command that reads the file has the last word.

    \b
    Examples:
      slackwater schema agent-settings > agent-settings.json
      slackwater schema scenario > scenario.json
      # first line of a file, for editors with the YAML language server:
      #   # yaml-language-server: $schema=./scenario.json
    """
    click.echo(render_schema(FileKind(kind)), nl=False)


def render_schema(kind: FileKind) -> str:
    """As it stands in docs/schemas."""
    from slackwater.contract.json_schema import file_schema, struct_schema
    from slackwater.policies.catalog import SETTINGS
    from slackwater.settings.agent_document import KIND
    from slackwater.settings.setting import API_VERSION
    from slackwater.simulation.scenario_schema import scenario_schema

    settings = file_schema(KIND, API_VERSION, struct_schema(SETTINGS.spec), required=False)
    made = settings if kind is FileKind.AGENT_SETTINGS else scenario_schema()
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"
