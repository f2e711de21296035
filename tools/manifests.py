"""Writes what is made of the chart, and what of the chart is made: python -m tools.manifests.

Owns src/slackwater/manifests (rendered by helm, for `slackwater install --print`) and the parts of
the chart's values.schema.json that are about our settings. `--check` writes nothing and says what
is out of date. Helm is the one that tools.kubernetes builds, or HELM.
"""

import argparse
import difflib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import inspect

from slackwater.cli.cluster_options import NAMESPACE
from slackwater.cli.install import PROGRAMS, REPOSITORY
from slackwater.contract.schema import GO_PATTERN, Unit, annotation_of, pair_types
from slackwater.policies.catalog import SETTINGS
from slackwater.settings.rebalancer_document import RUN_SETTINGS, WORKLOAD_SETTINGS
from slackwater.settings.setting import Setting
from tools.console import say

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "charts" / "slackwater"
SCHEMA = CHART / "values.schema.json"
FOLDER = ROOT / "src" / "slackwater" / "manifests"
_HEAD = "# Written by tools/manifests.py from charts/slackwater; change it there.\n"
_DURATION = r"^([0-9]+(\.[0-9]+)?(h|ms|m|s|us))+$"


class ManifestsError(Exception):
    """One sentence, with helm's own words."""


def render(helm: str, namespace: str = NAMESPACE, *values: str, hooks: bool = False) -> str:
    """The chart's objects without its definitions, as helm sends them to the API server; those of
    its hooks too, if they are asked for."""
    said = (f"image.repository={REPOSITORY}", "namespace.create=true", *values)
    chosen = [word for value in said for word in ("--set", value)]
    command = [helm, "template", "slackwater", str(CHART), "--namespace", namespace, *chosen]
    # Its hooks are helm's: applied with the rest, the one for uninstalling would run at once.
    command += [] if hooks else ["--no-hooks"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ManifestsError(f"helm template failed: {done.stderr.strip()}")
    return _HEAD + done.stdout


def settings_schema() -> dict[str, object]:
    """What the chart takes below agent.settings: our own bounds, so that helm refuses early."""
    return _closed(_nested(SETTINGS.rows))


def rebalancer_schema() -> dict[str, object]:
    """The same below rebalancer.settings."""
    workload = _nested(WORKLOAD_SETTINGS)
    listed = {**_closed({"name": {"type": "string"}, **workload}), "required": ["name"]}
    several = {"type": "array", "items": listed}
    run = _nested(RUN_SETTINGS)
    return _closed({**run, "defaults": _closed(workload), "workloads": several})


def _nested(settings: Sequence[Setting]) -> dict[str, object]:
    """A key with a dot is in a mapping below."""
    found: dict[str, object] = {}
    below: dict[str, dict[str, object]] = {}
    for each in settings:
        head, _, key = each.key.partition(".")
        if key:
            below.setdefault(head, {})[key] = _schema(each.type)
        else:
            found[head] = _schema(each.type)
    return found | {head: _closed(keys) for head, keys in below.items()}


def _closed(properties: Mapping[str, object]) -> dict[str, object]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _schema(info: inspect.Type) -> dict[str, object]:
    found = annotation_of(info)
    match found.type:
        case inspect.IntType() if found.unit is Unit.DURATION:
            return {"type": "string", "pattern": _DURATION}
        case inspect.IntType(ge=low, le=high) | inspect.FloatType(ge=low, le=high):
            kind = "integer" if isinstance(found.type, inspect.IntType) else "number"
            bounds = {"minimum": low, "maximum": high}
            return {"type": kind} | {key: n for key, n in bounds.items() if n is not None}
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.EnumType(cls=cls):
            return {"enum": [each.value for each in cls]}
        case inspect.StrType():
            pattern = found.extra.get(GO_PATTERN)
            return {"type": "string"} | ({"pattern": pattern} if pattern else {})
        case inspect.VarTupleType(max_length=most) if pair_types(found.type):
            bound = {} if most is None else {"maxProperties": most}
            return {"type": "object", "additionalProperties": {"type": "string"}, **bound}
        case _:
            return {"type": "array", "items": {"type": "string"}}


def schema() -> str:
    """The chart's schema with its settings as they are now."""
    whole = json.loads(SCHEMA.read_text())
    whole["definitions"]["settings"] = settings_schema()
    whole["definitions"]["rebalancerSettings"] = rebalancer_schema()
    return json.dumps(whole, indent=2) + "\n"


def wanted(helm: str) -> dict[Path, str]:
    return {
        SCHEMA: schema(),
        FOLDER / PROGRAMS: render(helm),
    }


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.manifests", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, show what differs")
    chosen = parser.parse_args(arguments)
    try:
        files = wanted(os.environ.get("HELM") or built_helm())
    except (ManifestsError, OSError) as error:
        say(f"manifests: {error}", sys.stderr)
        return 1
    stale = {path: text for path, text in files.items() if _content(path) != text}
    for path, text in stale.items():
        if chosen.check:
            before, after = _content(path).splitlines(), text.splitlines()
            say("\n".join(difflib.unified_diff(before, after, str(path), "as it should be")))
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            say(f"manifests: wrote {path.relative_to(ROOT)}", sys.stderr)
    return 1 if chosen.check and stale else 0


def built_helm() -> str:
    """From the cache, built where it is not there yet."""
    command = [sys.executable, "-m", "tools.kubernetes", "build", "helm"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    if done.returncode != 0:
        raise ManifestsError("helm could not be built; name one with HELM")
    return done.stdout.split()[-1]


def _content(path: Path) -> str:
    return path.read_text() if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
