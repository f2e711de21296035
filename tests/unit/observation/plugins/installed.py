"""Plug-ins as pip installs them: a module and its metadata in a folder of Python's path."""

from pathlib import Path

from slackwater.model.ensurance_plugin import ENTRY_POINTS

GOOD = """
from slackwater.model.metric import Sample

class Plugin:
    name = "example.com/queue"
    action_priority = 6
    sortable = True
    throttleable = False
    throttle_quantified = False
    evictable = True
    evict_quantified = True

    def samples(self, node):
        return [Sample(float(len(node.pods)))]

    def compare(self, first, second):
        return first.priority - second.priority

    def evict_release(self, pod):
        return pod.cpu_usage or 0
"""


def install(folder: Path, text: str, name: str = "queue", module: str = "queue_plugin") -> None:
    """As one entry point, by the class Plugin."""
    folder.mkdir(exist_ok=True)
    (folder / f"{module}.py").write_text(text)
    describe(folder, module, {name: f"{module}:Plugin"})


def describe(folder: Path, package: str, entry_points: dict[str, str]) -> None:
    metadata = folder / f"{package}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = "\n".join(f"{name} = {place}" for name, place in entry_points.items())
    (metadata / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\n{lines}\n")


def changed(**lines: str) -> str:
    """The good plug-in with other lines in its class, or functions that do something else."""
    text = GOOD
    for name, line in lines.items():
        if f"    {name} = " in text:
            before = text.split(f"    {name} = ")[1].splitlines()[0]
            text = text.replace(f"    {name} = {before}", f"    {name} = {line}")
        else:
            head, found, rest = text.partition(f"    def {name}(")
            signature, _, body = rest.partition("\n")
            after = body.partition("\n\n")[2]
            text = f"{head}{found}{signature}\n        {line}\n\n{after}"
    return text
