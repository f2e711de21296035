"""The same commands as `kubectl slackwater`: help that says so, and completion by kubectl's rules.

kubectl runs `kubectl-slackwater` for `kubectl slackwater`, and `kubectl_complete-slackwater` with
the words so far, of which the last may be empty, for what could come next.
"""

import re
from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem, ShellComplete

from slackwater.cli.main import COMMANDS, slackwater

PROGRAM = "kubectl slackwater"
#: What the shell does with what we print (cobra's ShellCompDirective): its own files, or nothing.
_FILES, _NO_FILES = 0, 4
_PATHS = ("file", "dir")
_COMMANDS = (*COMMANDS, "version", "completion", "COMMAND")
#: Our program's name at the beginning of a command, but not inside a container (`exec POD -- …`).
_IN_HELP = re.compile(rf"(?<!kubectl )(?<!-- )(?<![\w./:@-])slackwater (?={'|'.join(_COMMANDS)}\b)")


class PluginHelpFormatter(click.HelpFormatter):
    """Examples as one types them after `kubectl`."""

    def getvalue(self) -> str:
        return _IN_HELP.sub(f"{PROGRAM} ", super().getvalue())


def use_plugin_help() -> None:
    """For this process: every command makes its help with a context's formatter."""
    click.Context.formatter_class = PluginHelpFormatter


def complete(words: Sequence[str]) -> str:
    """What kubectl reads: a line for each word that fits, with a tab and its help, and then what
    else the shell may offer."""
    *before, unfinished = words or ("",)
    found = ShellComplete(slackwater, {}, PROGRAM, "").get_completions(list(before), unfinished)
    lines = [_line(each) for each in found if each.type not in _PATHS]
    paths = any(each.type in _PATHS for each in found)
    return "\n".join((*lines, f":{_FILES if paths else _NO_FILES}"))


def _line(item: CompletionItem) -> str:
    """A help of several lines would be several words."""
    help_text = " ".join((item.help or "").split())
    return f"{item.value}\t{help_text}" if help_text else str(item.value)
