"""README: commands can be typed as they stand, links lead somewhere, blocks are accounted for."""

import re
import shlex

import click
import pytest
import yaml

from slackwater.cli.main import slackwater
from tools.samples import ROOT, samples_in

README = (ROOT / "README.md").read_text("utf-8")
PROGRAM = ".venv/bin/slackwater"
#: What a block of commands begins with.
PROGRAMS = ("make", "docker", "helm", "kubectl", PROGRAM, "IMAGE=")
#: Longer than a screen or two, it is no way in.
MOST_LINES = 180


def blocks() -> list[tuple[int, str]]:
    """Where each indented block begins, counted from 0, and what is in it."""
    lines = README.splitlines()
    found: list[tuple[int, list[str]]] = []
    for number, line in enumerate(lines):
        if not line.startswith("    "):
            continue
        if found and all(not each.strip() for each in lines[_end(found[-1]) : number]):
            found[-1][1].extend(lines[_end(found[-1]) : number + 1])
        else:
            found.append((number, [line]))
    return [(first, "\n".join(each.removeprefix("    ") for each in text)) for first, text in found]


def _end(block: tuple[int, list[str]]) -> int:
    return block[0] + len(block[1])


def commands() -> list[str]:
    """Each command in blocks and in the text, with its continuation lines."""
    whole = [
        line
        for _, text in blocks()
        if text.startswith(PROGRAMS)
        for line in re.sub(r"\\\n\s*", "", text).splitlines()
    ]
    return whole + re.findall(rf"`({re.escape(PROGRAM)} [^`]*)`", README)


def ours() -> list[str]:
    """The calls of our own program, up to a pipe."""
    return [each.partition(" | ")[0] for each in commands() if each.startswith(PROGRAM)]


def parse(words: list[str]) -> click.Command:
    """As the command line does, its types and paths included; nothing is run."""
    command: click.Command = slackwater
    context = click.Context(command)
    while isinstance(command, click.Group):
        name, found, words = command.resolve_command(context, words)
        assert found is not None, name
        command = found
        context = click.Context(command, parent=context, info_name=name)
    command.make_context(context.info_name, words, parent=context.parent)
    return command


def test_it_stays_a_way_in() -> None:
    assert len(README.splitlines()) <= MOST_LINES


def test_every_block_is_a_command_a_document_or_a_sample() -> None:
    samples = {each.first for each in samples_in(ROOT / "README.md", README)}
    for first, text in blocks():
        if first in samples or text.startswith(PROGRAMS):
            continue
        document = yaml.safe_load(text)
        assert isinstance(document, dict), text
        assert "kind" in document, text


@pytest.mark.parametrize("call", ours())
def test_our_commands_are_understood(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = call.replace("$IMAGE:$TAG", "registry.example.com/slackwater:0.1")
    parse(shlex.split(text, comments=True)[1:])


def test_a_wrong_option_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(click.UsageError):
        parse(["simulate", "examples/scenarios/spikes.yaml", "--no-such-option"])
    with pytest.raises(click.UsageError):
        parse(["simulate", "examples/scenarios/none.yaml"])


def test_every_make_target_is_there() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:`|    )make ([a-z]+)", README))
    assert named > {"demo", "test"}
    assert named <= targets


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", README)
    assert len(links) > 30
    assert [each for each in links if not (ROOT / each).exists()] == []
