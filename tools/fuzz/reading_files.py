"""The rows of the table for what is read from a path: state of ours, and files named by people."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from slackwater.agent.objects_checkpoint import FILE as CHECKPOINT
from slackwater.agent.objects_checkpoint import ObjectsCheckpoint
from slackwater.cli.forecast_series import read_all_series
from slackwater.cli.output import Failed
from slackwater.execution.ledger import FILE as LEDGER
from slackwater.execution.ledger import Ledger
from slackwater.execution.memory_file import MemoryFiles
from slackwater.kube.credentials.kubeconfig import from_files
from slackwater.model.cgroup import CgroupRef, Level
from slackwater.model.gap import Gap
from slackwater.model.plan import LedgerEntry, StartNote
from slackwater.model.problem import InvalidError
from slackwater.model.units import Bandwidth, Micros
from slackwater.observation.detection import kubelet_cpus
from slackwater.observation.detection.kubelet_topology import read_topology_policy
from slackwater.observation.objects.folder import Folder
from slackwater.observation.objects.object_set import Objects
from slackwater.policies.catalog import POLICIES, SETTINGS
from slackwater.simulation.object_files import read_object_files
from tools.fuzz import seeds
from tools.fuzz.mutation import Mutator
from tools.fuzz.running import Reader

_STATE = b'{"policyName":"static","defaultCpuSet":"0-3","entries":{"u":{"c":"4-5"}},"checksum":1}'
_KUBELET = b"reservedSystemCPUs: 0-1\nkubeReserved: {cpu: 200m}\nsystemReserved:\n  cpu: 100m\n"
_SERIES = b"ts,value\n1700000000,1.5\n1700000060,2\n2023-11-14T22:15:20Z,nan\n1700000180,3.5\n"


def files(folder: Path) -> tuple[Reader, ...]:
    """`folder` is empty and theirs."""
    state, memory, objects = (folder / name for name in ("state", "memory", "objects"))
    for each in (state, memory, objects):
        each.mkdir(mode=0o700)
    return (
        _file("ledger", state / LEDGER, lambda: _ledger(state), _noted(state)),
        Reader("ledger-lines", _through(state / LEDGER, lambda: _ledger(state)),
               (_as_objects(_noted(state)),), Mutator.lines, ()),
        Reader("kubelet-state-object", _through(folder / "cpu_manager_state",
               lambda: _kubelet(folder)), (msgspec.json.decode(_STATE),), Mutator.encoded, ()),
        _file("checkpoint", state / CHECKPOINT, lambda: _checkpoint(state), _saved(state),
              covers=("agent.objects_checkpoint.ObjectsCheckpoint.load",)),
        *(
            _file(f"memory-{policy.name}", memory / f"{policy.name}.json",
                  lambda: _memories(memory),
                  msgspec.json.encode({"boot": "b", "memory": policy.first_memory}),
                  msgspec.json.encode(policy.first_memory),
                  covers=("execution.memory_file.MemoryFiles.load",))
            for policy in POLICIES if policy.keep is not None
        ),
        _file("kubeconfig", folder / "config", lambda: from_files([str(folder / "config")], "", {}),
              msgspec.json.encode(seeds.KUBECONFIG), covers=(
                  "kube.credentials.kubeconfig.from_files",)),
        Reader("kubeconfig-object", _through(folder / "config2",
               lambda: from_files([str(folder / "config2")], "", {})), (seeds.KUBECONFIG,),
               Mutator.encoded, ()),
        _file("series", folder / "a.csv", lambda: read_all_series([str(folder / "a.csv")]), _SERIES,
              contract=(InvalidError, Failed), covers=(
                  "cli.forecast_series.read_series", "cli.forecast_series.read_all_series")),
        _file("object-file", folder / "o.yaml",
              lambda: read_object_files((str(folder / "o.yaml"),)),
              *_examples("ensurance-metric/*.yaml"), contract=(InvalidError,),
              covers=("simulation.object_files.read_object_files",)),
        _file("folder", objects / "a.yaml", lambda: _folder(objects), *_examples("node/*.yaml"),
              covers=("observation.objects.folder.Folder.read",)),
        _file("kubelet-state", folder / "cpu_manager_state", lambda: _kubelet(folder), _STATE,
              covers=("observation.detection.kubelet_cpus.read_kubelet_cpus",)),
        _file("kubelet-config", folder / "kubelet.yaml", lambda: _kubelet(folder), _KUBELET,
              covers=("observation.detection.kubelet_topology.read_topology_policy",)),
    )  # fmt: skip


def _examples(pattern: str) -> tuple[bytes, ...]:
    return tuple(text.encode() for text in seeds.examples(pattern))


def _through(path: Path, call: Callable[[], object]) -> Callable[[Any], object]:
    def written(data: bytes) -> object:
        path.write_bytes(data)
        return call()

    return written


def _file(
    name: str,
    path: Path,
    call: Callable[[], object],
    *found: bytes,
    covers: tuple[str, ...] = (),
    contract: tuple[type[BaseException], ...] = (),
) -> Reader:
    return Reader(name, _through(path, call), found, Mutator.data, covers, contract)


def _ledger(folder: Path) -> object:
    ledger = Ledger.open(str(folder), "b", "i")
    if isinstance(ledger, Gap):
        return ledger
    try:
        ledger.check_hierarchy("h")
        return ledger.problems
    finally:
        ledger.close()


def _noted(folder: Path) -> bytes:
    """What an agent notes of one knob and one start, and a line of another version."""
    ref = CgroupRef("kubepods/besteffort/pod1", 12, Level.POD)
    quota, now = Bandwidth(Micros(50_000), Micros(100_000)), Micros(5)
    entry = LedgerEntry(ref, "quota", "file", "max 100000", "max 100000", "50000 100000", now)
    ledger = Ledger.open(str(folder), "b", "i")
    if isinstance(ledger, Gap):
        raise OSError(ledger.reason)
    ledger.check_hierarchy("h")
    ledger.note(entry)
    ledger.note(msgspec.structs.replace(entry, knob="weight"))
    ledger.note_start(StartNote("kubepods/pod2/c", quota, quota, now))
    ledger.clear(entry)
    ledger.close()
    written = (folder / LEDGER).read_bytes()
    (folder / LEDGER).unlink()
    return written + b'{"new":1}\n'


def _as_objects(lines: bytes) -> list[object]:
    return [msgspec.json.decode(line) for line in lines.splitlines()]


def _checkpoint(folder: Path) -> object:
    return ObjectsCheckpoint(str(folder), "worker", SETTINGS).load()


def _saved(folder: Path) -> bytes:
    """What an agent saves whose folder holds the examples."""
    examples = Folder(str(seeds.EXAMPLES / "node"), schema=SETTINGS).read()
    found = examples if isinstance(examples, Objects) else Objects()
    problem = ObjectsCheckpoint(str(folder), "worker", SETTINGS).offer(found, Micros(0), heard=True)
    if problem:
        raise OSError(problem)
    return (folder / CHECKPOINT).read_bytes()


def _memories(folder: Path) -> object:
    found = MemoryFiles(str(folder), POLICIES, lambda: 1_800_000_000.0, "b").load()
    for name in os.listdir(folder):
        os.unlink(folder / name)
    return found


def _folder(folder: Path) -> object:
    return Folder(str(folder), schema=SETTINGS).read()


def _kubelet(folder: Path) -> object:
    places = kubelet_cpus.KubeletPlaces(
        (str(folder / "cpu_manager_state"),), (str(folder / "kubelet.yaml"),),
        ("kubelet", "--kube-reserved=cpu=200m"), str(folder),
    )  # fmt: skip
    return kubelet_cpus.read_kubelet_cpus(places), read_topology_policy(places)
