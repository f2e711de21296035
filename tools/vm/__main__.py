"""The command line: python -m tools.vm run | prepare | check.

Its own words go to stderr, so that stdout is the command's alone. Exit codes: of `run`, the
command's own, or 125 where no machine came back with one; of the others, 0 or 1.
"""

import argparse
import os
import platform
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.provision import SetupError, cache_folder
from tools.vm import NO_RESULT, VmError
from tools.vm.initramfs import prepare_initramfs, static_busybox
from tools.vm.kernel import Series, cached_kernel, prepare_kernel
from tools.vm.machine import (
    TWO_CPUS,
    Clock,
    Init,
    Job,
    Machine,
    StoppedBySignalError,
    guest_variables,
    parse_variable,
    run_job,
    scratch_for,
    signals_raised,
    standard_output,
)

SYSTEMD = Path("/lib/systemd/systemd")

_TO_RUN = {"qemu-system-x86_64": "qemu-system-x86", "setpriv": "util-linux"}
_TO_BUILD = {"dpkg-deb": "dpkg", "depmod": "kmod"}
_TO_FETCH = ("apt-get", "apt-cache")


def require(series: Series, init: Init, cache: Path) -> None:
    """VmError that names the first thing missing and the remedy."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise VmError(
            f"Virtual machines need Linux on x86_64, and this is {platform.system()} on"
            f" {platform.machine()}: run these tests elsewhere."
        )
    _require_programs(_TO_RUN)
    static_busybox()
    if init is Init.SYSTEMD and not SYSTEMD.exists():
        raise VmError(f"{SYSTEMD} is missing: apt-get install systemd.")
    if cached_kernel(series, cache) is not None:
        return
    if not all(map(shutil.which, _TO_FETCH)):
        raise VmError(
            f"There is no Linux {series} kernel in {cache} and no apt-get to fetch one: copy that"
            " folder from a machine with Debian, after `python -m tools.vm prepare` there."
        )
    _require_programs(_TO_BUILD)


def _require_programs(programs: dict[str, str]) -> None:
    for program, package in programs.items():
        if shutil.which(program) is None:
            raise VmError(f"{program} is missing: apt-get install {package}.")


_DEFAULT_LIMIT_SECONDS = 600.0
_USAGE_ERROR = 2


def main(arguments: Sequence[str]) -> int:
    options, command = split_command(arguments)
    chosen = _parser().parse_args(options)
    if (chosen.action == "run") != bool(command):
        print("vm: `run` needs `-- COMMAND`, and only `run` takes one", file=sys.stderr)
        return _USAGE_ERROR
    try:
        with signals_raised():
            return _act(chosen, command, cache_folder(os.environ) / "vm")
    except (VmError, SetupError, OSError) as failure:
        # OSError too: a full disk must not look like a failed test, which a traceback's 1 would.
        _say(f"vm: {failure}")
        return NO_RESULT if chosen.action == "run" else 1
    except StoppedBySignalError as interrupted:
        _say(f"vm: {interrupted}; nothing is left running")
        return interrupted.exit_code


def split_command(arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """This program's own arguments, and the command after the first "--"."""
    if "--" not in arguments:
        return arguments, ()
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def _act(chosen: argparse.Namespace, command: Sequence[str], cache: Path) -> int:
    require(chosen.kernel, chosen.init, cache)
    match chosen.action:
        case "run":
            return _run(chosen, command, cache)
        case "prepare":
            prepare_initramfs(prepare_kernel(chosen.kernel, cache, _say), cache, _say)
    return 0


def _run(chosen: argparse.Namespace, command: Sequence[str], cache: Path) -> int:
    folder = Path.cwd()
    scratch = scratch_for(folder, command)
    kernel = prepare_kernel(chosen.kernel, cache, _say)
    initramfs = prepare_initramfs(kernel, cache, _say)
    out: Path | None = chosen.out
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    machine = Machine(
        kernel.image, initramfs, chosen.init, chosen.clock, chosen.memory, scratch, out, chosen.smp
    )
    path = os.environ.get("PATH", os.defpath)
    variables = guest_variables(path, dict(chosen.env), out)
    _say(f"vm: starting Linux {kernel.release} with {chosen.init}")
    with standard_output() as output:
        return run_job(machine, Job(command, folder, variables, chosen.timeout), _say, output)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.vm", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    run = actions.add_parser("run", help="run a command in a machine: [OPTIONS] -- COMMAND ARG...")
    prepare = actions.add_parser("prepare", help="fetch and build ahead what `run` needs")
    check = actions.add_parser("check", help="say whether a machine can run here")
    for action in (run, prepare, check):
        action.add_argument("--init", type=Init, choices=[*Init], default=Init.CGROUPFS)
        action.add_argument("--kernel", type=Series, choices=[*Series], default=Series.V6_12)
    run.add_argument("--timeout", type=float, default=_DEFAULT_LIMIT_SECONDS, metavar="SECONDS")
    run.add_argument(
        "--clock",
        type=Clock,
        choices=[*Clock],
        default=Clock.HOST,
        help="by instructions, a busy host costs the guest no time (default host)",
    )
    run.add_argument("--memory", default="2G", help="as QEMU spells it (default 2G)")
    run.add_argument(
        "--smp",
        default=TWO_CPUS,
        help="CPUs as QEMU spells them, such as 8,sockets=2,cores=2,threads=2 (default 2)",
    )
    run.add_argument(
        "--out", type=_absolute, metavar="DIR", help="a host folder, $SLACKWATER_VM_OUT inside"
    )
    run.add_argument(
        "--env", type=_variable, nargs="+", action="extend", default=[], metavar="NAME=VALUE"
    )
    return parser


def _absolute(text: str) -> Path:
    return Path(text).absolute()


def _variable(text: str) -> tuple[str, str]:
    try:
        return parse_variable(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
