"""`kubectl slackwater`: help as one types it there, completion by kubectl's rules, k9s' keys."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import click
import pytest
import yaml

from slackwater.cli.kubectl_plugin import PluginHelpFormatter, complete, use_plugin_help
from slackwater.cli.main import COMMANDS, slackwater
from tools.provision import ROOT

K9S = ROOT / "examples/k9s/plugins.yaml"
#: As k9s finds its variables in arguments (derailed/k9s, internal/view/env.go).
VARIABLE = re.compile(r"\$(!?[\w|\d|\-|]+)")


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(click.Context, "formatter_class", click.HelpFormatter)
    use_plugin_help()


def every_command() -> Iterator[tuple[str, ...]]:
    yield ()
    context = click.Context(slackwater)
    for name in slackwater.list_commands(context):
        command = slackwater.get_command(context, name)
        yield (name,)
        if isinstance(command, click.Group):
            yield from ((name, each) for each in command.list_commands(context))


def help_of(path: tuple[str, ...]) -> str:
    context = click.Context(slackwater, info_name="kubectl slackwater")
    command: click.Command = slackwater
    for name in path:
        assert isinstance(command, click.Group)
        found = command.get_command(context, name)
        assert found is not None
        command, context = found, click.Context(found, info_name=name, parent=context)
    return command.get_help(context)


@pytest.mark.parametrize("path", list(every_command()), ids=" ".join)
def test_no_help_names_the_other_program(path: tuple[str, ...], plugin: None) -> None:
    text = help_of(path)
    assert text.startswith(" ".join(("Usage: kubectl slackwater", *path)))
    names = "|".join((*COMMANDS, "version", "completion", "COMMAND"))
    before = [text[: each.start()] for each in re.finditer(rf"\bslackwater (?:{names})\b", text)]
    assert before
    assert [each[-40:] for each in before if not each.endswith(("kubectl ", "-- "))] == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("slackwater top --once", "kubectl slackwater top --once"),
        ("sudo slackwater doctor --probe", "sudo kubectl slackwater doctor --probe"),
        ("`slackwater replay`", "`kubectl slackwater replay`"),
        ("eval $(slackwater completion bash)", "eval $(kubectl slackwater completion bash)"),
        ("kubectl exec POD -- slackwater resume", "kubectl exec POD -- slackwater resume"),
        ("kubectl slackwater top", "kubectl slackwater top"),
        ("/run/slackwater agent.sock", "/run/slackwater agent.sock"),
        ("what `slackwater.io/v1` is", "what `slackwater.io/v1` is"),
        ("helm install slackwater charts", "helm install slackwater charts"),
    ],
)
def test_only_what_one_types_is_rewritten(text: str, shown: str) -> None:
    made = PluginHelpFormatter()
    made.write(text)
    assert made.getvalue() == shown


def test_the_program_as_kubectl_starts_it() -> None:
    code = "from slackwater.__main__ import {} as run; run()"
    help_text, wrong, words = (
        subprocess.run(
            [sys.executable, "-c", code.format(entry), *arguments],
            capture_output=True, text=True, check=False,
        )
        for entry, *arguments in (
            ("run_plugin", "top", "--help"),
            ("run_plugin", "top", "--sort", "size"),
            ("complete_plugin", "top", "--sort", ""),
        )
    )  # fmt: skip
    assert help_text.stdout.startswith("Usage: kubectl slackwater top [OPTIONS]")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "Try 'kubectl slackwater top --help' for help." in wrong.stderr
    assert words.stdout == "usage\nthrottled\nname\n:4\n"


@pytest.mark.parametrize(
    ("words", "found", "directive"),
    [
        (["expl"], {"explain"}, ":4"),
        (["top", "--no"], {"--no-color", "--node"}, ":4"),
        (["forecast", "sh"], {"show"}, ":4"),
        (["top", "-o", "j"], {"json"}, ":4"),
        (["nothing", "expl"], {"explain"}, ":4"),
        (["top", "--sort", "x"], set(), ":4"),
    ],
)
def test_completion(words: list[str], found: set[str], directive: str) -> None:
    *lines, last = complete(words).split("\n")
    assert {line.partition("\t")[0] for line in lines} >= found
    assert bool(lines) == bool(found)
    assert last == directive


def test_every_command_is_offered_with_its_summary() -> None:
    *lines, _ = complete([]).split("\n")
    assert lines == complete([""]).split("\n")[:-1]
    offered = dict(line.split("\t") for line in lines)
    assert offered.keys() >= set(COMMANDS)
    assert offered["top"] == "Live view of a node: usage, quotas, throttling, pressure."


def test_files_are_left_to_the_shell() -> None:
    @click.command()
    @click.argument("file", type=click.Path())
    def read(file: str) -> None:
        """Nothing."""

    slackwater.add_command(read)
    try:
        assert complete(["read", ""]) == ":0"
    finally:
        del slackwater.commands["read"]


def k9s() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load(K9S.read_text())["plugins"]
    return found


def test_k9s_runs_commands_that_there_are() -> None:
    """As k9s substitutes its variables and the shell splits words."""
    known = {"NAME": "node-a", "NAMESPACE": "default", "CONTEXT": "a b", "COL-NODE": "node-b"}
    ran = set()
    for each in k9s().values():
        assert (each["command"], each["args"][0]) == ("sh", "-c")
        script = each["args"][1]
        for name in sorted(VARIABLE.findall(script), key=len, reverse=True):
            script = script.replace(f"${name}", known[name])
        words = shlex.split(script.partition(" 2>&1 |")[0])
        assert words[:2] == ["kubectl", "slackwater"]
        command = slackwater.get_command(click.Context(slackwater), words[2])
        assert command is not None
        said = command.make_context(words[2], words[3:]).params
        assert said["context"] == "a b"
        pods = each["scopes"] == ["pods"]
        assert said["node"] == ("node-b" if pods else "node-a")
        assert said.get("target", "") == ("default/node-a" if pods else "")
        ran.add(words[2])
    assert ran == {"top", "cpus", "explain"}


def test_no_two_keys_of_k9s_are_the_same_where_both_are_shown() -> None:
    keys = [(each["shortCut"], scope) for each in k9s().values() for scope in each["scopes"]]
    assert len(keys) == len(set(keys))
