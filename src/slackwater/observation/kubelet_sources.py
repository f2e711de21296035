"""What the kubelet was told: read from its files and from its running process.

Owns where those are. Reads only; what is unreadable or garbage becomes a finding with a note.
The process is found by its name, as its pid file is not everywhere.
"""

import os

import msgspec

from slackwater.model.gap import Gap
from slackwater.observation.bounded_read import LARGEST_READ, Contents, read_start
from slackwater.observation.kubelet_config import (
    CGROUP_ROOT,
    CONFIG_FLAG,
    Said,
    Setting,
    arguments_of,
    flag_values,
    setting_in_arguments,
    setting_in_text,
)
from slackwater.observation.roots import Roots
from slackwater.observation.verdicts import Finding

#: In this order (the seed's two, and the third that Volcano reads too).
CONFIG_FILES = (
    "/var/lib/kubelet/config.yaml",
    "/etc/kubernetes/kubelet.conf",
    "/var/lib/kubelet/kubeadm-flags.env",
)
PROCESS_SOURCE = "kubelet process"
_CUT = f"longer than {LARGEST_READ // 1024} KiB, the rest was not read"
#: TASK_COMM_LEN is 16; a newline follows.
_COMM_BYTES = 32


class KubeletProcess(msgspec.Struct, frozen=True):
    """A running kubelet. `directory` is its folder in procfs."""

    pid: int
    directory: str
    arguments: tuple[str, ...]
    note: str


def file_findings(roots: Roots, setting: Setting) -> tuple[Finding, ...]:
    """What each of the kubelet's usual files says."""
    said = ((path, _said_by_file(f"{roots.host}{path}", setting)) for path in CONFIG_FILES)
    return tuple(Finding(path, answer.value, answer.note) for path, answer in said)


def process_finding(roots: Roots, setting: Setting) -> Finding:
    """What the running kubelet's flags say, else the file that its --config names."""
    match find_kubelet(roots):
        case Gap(reason):
            return Finding(PROCESS_SOURCE, None, reason)
        case kubelet:
            answer = _said_by_process(roots, kubelet, setting)
            return Finding(PROCESS_SOURCE, answer.value, f"{kubelet.note}: {answer.note}")


def kubelet_cgroup_root(roots: Roots) -> str | None:
    """The kubelet's cgroup root without slashes at its ends, "" for the top; None: nobody says.

    The process comes first: its flags are in force, whatever the files say by now.
    """
    findings = (process_finding(roots, CGROUP_ROOT), *file_findings(roots, CGROUP_ROOT))
    return next((f.found.strip("/") for f in findings if f.found is not None), None)


def process_name(roots: Roots, pid: int) -> str | Gap:
    contents = read_start(f"{roots.proc}/{pid}/comm", _COMM_BYTES)
    return contents if isinstance(contents, Gap) else os.fsdecode(contents.data.rstrip(b"\n"))


def find_kubelet(roots: Roots) -> KubeletProcess | Gap:
    """The oldest number wins: a pod's process that calls itself kubelet came later."""
    try:
        names = os.listdir(roots.proc)
    except OSError as error:
        return Gap(f"{roots.proc} is not readable: {error.strerror}")
    for pid in sorted(int(name) for name in names if name.isascii() and name.isdigit()):
        if process_name(roots, pid) == "kubelet":
            return _kubelet(roots, pid)
    return Gap(f"no process named kubelet in {roots.proc}")


def _kubelet(roots: Roots, pid: int) -> KubeletProcess | Gap:
    directory = f"{roots.proc}/{pid}"
    match read_start(f"{directory}/cmdline"):
        case Gap(reason):
            return Gap(f"{directory}/cmdline is {reason}")
        case Contents(data, cut):
            # The last argument of a cut text may be half of one.
            arguments = arguments_of(data)[:-1] if cut else arguments_of(data)
            note = f"pid {pid}, command line {_CUT}" if cut else f"pid {pid}"
            return KubeletProcess(pid, directory, arguments, note)


def _said_by_process(roots: Roots, kubelet: KubeletProcess, setting: Setting) -> Said:
    by_flag = setting_in_arguments(kubelet.arguments, setting)
    files = flag_values(kubelet.arguments, CONFIG_FLAG)
    if by_flag.value is not None or not files:
        return by_flag
    return _said_by_config(roots, kubelet, files[-1], setting)


def _said_by_config(roots: Roots, kubelet: KubeletProcess, path: str, setting: Setting) -> Said:
    """The kubelet's own view of its file comes first: it may have a root of its own."""
    absolute = os.path.normpath(path) if path.startswith("/") else ""
    views = (
        (f"{kubelet.directory}/root{absolute}", f"{roots.host}{absolute}")
        if absolute
        else (f"{kubelet.directory}/cwd/{path}",)
    )
    answers = [_said_by_file(view, setting) for view in views]
    best = next((answer for answer in answers if answer.value is not None), answers[0])
    return Said(best.value, f"{path[:80]!r}: {best.note}")


def _said_by_file(path: str, setting: Setting) -> Said:
    match read_start(path):
        case Gap(reason):
            return Said(None, reason)
        case Contents(data, cut):
            answer = setting_in_text(data, setting)
            return Said(answer.value, f"{answer.note}; {_CUT}") if cut else answer
