"""What each kind of test stage executes: the command, and what its tests find in the environment.

Starts nothing.
"""

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from tools.console import wants_colour
from tools.kubernetes.programs import variable_of
from tools.preparations import VM
from tools.priority import BEHIND
from tools.stages import PYTHON, BrokerSuite, ClusterSuite, KernelSuite, Suite, TestStage, VmSuite

PYTEST = (PYTHON, "-m", "pytest")
REPORT = "junit.xml"
# Tests are compiled once and kept, also where somebody's environment asks for no bytecode: each of
# the many processes of a run would compile them again.
KEEP_BYTECODE = {"PYTHONDONTWRITEBYTECODE": ""}
# Five minutes on a quiet machine; a busy one takes three times as long. In seconds.
LONGEST_VM = "1200"
# Importing these two plugins takes an emulated CPU 8 of 24 s, and these tests need neither.
UNNEEDED_IN_VM = ("-p", "no:xdist", "-p", "no:hypothesispytest")

Env = dict[str, str]


def command_of(
    stage: TestStage, out: Path, environ: Mapping[str, str], programs: Mapping[str, str]
) -> tuple[list[str], Env]:
    """Its report goes into the folder `out`."""
    found = {variable_of(name): path for name, path in programs.items()}
    match stage:
        case VmSuite():
            return vm_command(stage, out, environ, found), {}
        case Suite():
            return ["nice", "-n", str(BEHIND), *_pytest(stage.arguments, out)], KEEP_BYTECODE
        case KernelSuite():
            env = {"SLACKWATER_TEST_KERNEL": stage.test_kernel}
            return _pytest(("tests/kernel",), out), {**KEEP_BYTECODE, **env}
        case ClusterSuite() | BrokerSuite():
            return _pytest(stage.arguments, out), {**KEEP_BYTECODE, **found}


def _pytest(arguments: tuple[str, ...], out: Path) -> list[str]:
    """What it says goes to a log; whoever is shown it may like colours."""
    colour = "yes" if wants_colour(sys.stdout, os.environ) else "no"
    return [*PYTEST, *arguments, f"--color={colour}", f"--junitxml={out / REPORT}"]


def collection(stage: VmSuite) -> list[str]:
    return [*PYTEST, "--collect-only", "-q", stage.tests, *UNNEEDED_IN_VM]


def vm_command(
    stage: VmSuite, out: Path, environ: Mapping[str, str], programs: Mapping[str, str]
) -> list[str]:
    """A shell inside the machine expands its own name of the folder `out`."""
    report = f'--junitxml="$SLACKWATER_VM_OUT/{REPORT}"'
    tests = f"exec {shlex.join([*PYTEST, stage.tests, *UNNEEDED_IN_VM])} {report}"
    env = [f"SLACKWATER_TEST_KERNEL={stage.test_kernel}"]
    env += [f"{name}={path}" for name, path in programs.items()]
    env += [f"{name}={environ[name]}" for name in ("CI", "NO_COLOR") if name in environ]
    choice = ["--init", stage.init, "--kernel", stage.kernel, "--memory", stage.memory]
    choice += ["--clock", stage.clock]
    limits = ["--timeout", LONGEST_VM, "--out", str(out)]
    return [*VM, "run", *choice, *limits, "--env", *env, "--", "sh", "-c", tests]
