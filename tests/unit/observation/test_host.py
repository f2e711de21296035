"""The machine from its files: kinds of machines as plain trees, and kinds of damage to them."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.model.cpus import Cpu, CpuSet, Topology
from slackwater.model.gap import Gap
from slackwater.model.machine import CpuTicks, Machine, MachineTicks, NumaNode
from slackwater.observation.host import Roots, read_machine, read_online, read_pressure, read_ticks

CPU = "sys/devices/system/cpu"
NODE = "sys/devices/system/node"
X86 = "vendor_id\t: {vendor}\nmodel name\t: {model}\n"
PRESSURE = "some avg10=1.50 avg60=0.00 avg300=0.00 total=7\n"
STAT = "cpu  4 3 2 1 0 0 0 0 0 0\ncpu0 4 3 2 1 0 0 0 0 0 0\nintr 9\n"


class Box:
    """A machine made of plain files."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.roots = Roots(proc=f"{top}/proc", sys=f"{top}/sys")
        (top / "proc").mkdir()
        (top / "sys").mkdir()

    def put(self, file: str, text: str | bytes) -> None:
        path = self.top / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)

    def cpu(self, number: int, *, core: int, package: int, siblings: str | None) -> None:
        self.put(f"{CPU}/cpu{number}/topology/core_id", f"{core}\n")
        self.put(f"{CPU}/cpu{number}/topology/physical_package_id", f"{package}\n")
        if siblings is not None:
            self.put(f"{CPU}/cpu{number}/topology/thread_siblings_list", f"{siblings}\n")

    def files(self) -> list[Path]:
        return [Path(folder, name) for folder, _, names in os.walk(self.top) for name in names]

    def read(self) -> Machine:
        return read_machine(self.roots)


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


def two_sockets(box: Box, vendor: str = "GenuineIntel", model: str = "Intel(R) Xeon(R)") -> Box:
    """Two packages of two cores of two hyper-threads, numbered as servers do."""
    box.put("proc/cpuinfo", X86.format(vendor=vendor, model=model))
    box.put("proc/stat", STAT)
    box.put("proc/pressure/cpu", PRESSURE)
    box.put(f"{CPU}/online", "0-7\n")
    box.put(f"{CPU}/smt/active", "1\n")
    for number in range(8):
        core, package = number // 2 % 2, number % 2
        low = number % 4
        box.cpu(number, core=core, package=package, siblings=f"{low},{low + 4}")
    box.put(f"{NODE}/node0/cpulist", "0,2,4,6\n")
    box.put(f"{NODE}/node1/cpulist", "1,3,5,7\n")
    box.put(f"{NODE}/node2/cpulist", "\n")
    box.put(f"{NODE}/online", "0-2\n")
    return box


def test_an_intel_server(box: Box) -> None:
    two_sockets(box).put(f"{CPU}/intel_pstate/no_turbo", "0\n")
    machine = box.read()
    assert machine.cpus == CpuSet(0xFF)
    assert (machine.vendor, machine.model) == ("GenuineIntel", "Intel(R) Xeon(R)")
    assert (machine.smt, machine.turbo) == (True, True)
    assert isinstance(machine.topology, Topology)
    assert (machine.topology.packages(), machine.topology.cores()) == (2, 4)
    assert machine.topology.siblings(6) == CpuSet.of((2, 6))
    assert machine.topology.nodes() == (0, 1)
    assert machine.nodes == (
        NumaNode(0, CpuSet.of((0, 2, 4, 6))),
        NumaNode(1, CpuSet.of((1, 3, 5, 7))),
        NumaNode(2, CpuSet()),
    )
    assert not isinstance(machine.psi, Gap)
    assert machine.psi.some.avg10 == 150


@pytest.mark.parametrize(
    ("files", "turbo"),
    [
        pytest.param({"intel_pstate/no_turbo": "1"}, False, id="intel, off"),
        pytest.param({"intel_pstate/no_turbo": "0"}, True, id="intel, on"),
        pytest.param({"cpufreq/boost": "1"}, True, id="acpi-cpufreq, on"),
        pytest.param({"cpufreq/boost": "0"}, False, id="acpi-cpufreq, off"),
        pytest.param({"cpu0/cpufreq/boost": "0", "cpu7/cpufreq/boost": "1"}, True, id="amd, some"),
        pytest.param({f"cpu{n}/cpufreq/boost": "0" for n in range(8)}, False, id="amd, off"),
        pytest.param({"cpu0/cpufreq/cpb": "1"}, True, id="acpi-cpufreq on amd"),
        pytest.param({"intel_pstate/no_turbo": "?", "cpufreq/boost": "1"}, True, id="one broken"),
        pytest.param(
            {"intel_pstate/no_turbo": "1", "cpufreq/boost": "1"}, False, id="intel comes first"
        ),
        pytest.param({"cpu9/cpufreq/boost": "1"}, None, id="a CPU that is off"),
        pytest.param({}, None, id="no driver"),
    ],
)
def test_turbo(box: Box, files: dict[str, str], turbo: bool | None) -> None:
    two_sockets(box)
    for file, text in files.items():
        box.put(f"{CPU}/{file}", f"{text}\n")
    found = box.read().turbo
    assert isinstance(found, Gap) if turbo is None else found is turbo


@pytest.mark.parametrize(("active", "smt"), [("0", False), ("1", True), ("banana", True)])
def test_smt_is_what_the_kernel_says_or_else_the_siblings(box: Box, active: str, smt: bool) -> None:
    two_sockets(box).put(f"{CPU}/smt/active", active)
    assert box.read().smt is smt


def test_without_siblings_smt_is_off(box: Box) -> None:
    box.put(f"{CPU}/online", "0-1\n")
    for number in range(2):
        box.cpu(number, core=number, package=0, siblings=str(number))
    assert box.read().smt is False


@pytest.mark.parametrize(
    ("files", "groups"),
    [
        pytest.param({}, "0|1|2|3|4|5|6|7", id="nobody tells"),
        pytest.param(
            {
                n: {"index2": ("2", f"{n % 4},{n % 4 + 4}"), "index3": ("3", "0-7")}
                for n in range(8)
            },
            "0-7",
            id="one L3",
        ),
        pytest.param(
            {n: {"index3": ("3", "0,2,4,6" if n % 2 == 0 else "1,3,5,7")} for n in range(8)},
            "0,2,4,6|1,3,5,7",
            id="one for each package",
        ),
        pytest.param(
            {n: {"index2": ("2", f"{n % 4},{n % 4 + 4}")} for n in range(8)},
            "0,4|1,5|2,6|3,7",
            id="L2 is the last level",
        ),
        pytest.param(
            {n: {"index10": ("4", "0-7"), "index3": ("3", str(n))} for n in range(8)},
            "0-7",
            id="by level, not by name",
        ),
        pytest.param(
            {
                n: {"index3": ("3", "0-3" if n < 4 else "?"), "index2": ("?", "0-7")}
                for n in range(8)
            },
            "0-3|4|5|6|7",
            id="some of them broken",
        ),
        pytest.param(
            {n: {"index3": ("3", "0-15")} for n in range(8)}, "0-7", id="some of them offline"
        ),
    ],
)
def test_the_last_level_cache(
    box: Box, files: dict[int, dict[str, tuple[str, str]]], groups: str
) -> None:
    two_sockets(box)
    for number, caches in files.items():
        for name, (level, shared) in caches.items():
            box.put(f"{CPU}/cpu{number}/cache/{name}/level", f"{level}\n")
            box.put(f"{CPU}/cpu{number}/cache/{name}/shared_cpu_list", f"{shared}\n")
    topology = box.read().topology
    assert isinstance(topology, Topology)
    found: dict[int, list[int]] = {}
    for cpu in topology.cpus:
        found.setdefault(cpu.cache, []).append(cpu.number)
    assert "|".join(CpuSet.of(each).format() for each in found.values()) == groups
    assert all(lowest == min(each) for lowest, each in found.items())
    assert topology.caches() == len(found)


def test_an_arm64_server_without_firmware_tables(box: Box) -> None:
    """Two clusters with the same core ids, and no packages: none of them are hyper-threads."""
    box.put("proc/cpuinfo", "CPU implementer\t: 0x41\nCPU part\t: 0xd40\n")
    box.put(f"{CPU}/online", "0-3\n")
    box.put(f"{CPU}/smt/active", "0\n")
    for number in range(4):
        box.cpu(number, core=number % 2, package=-1, siblings=str(number))
    machine = box.read()
    assert (machine.model, machine.vendor) == ("ARM Neoverse-V1", "ARM")
    assert isinstance(machine.topology, Topology)
    assert (machine.topology.cores(), machine.topology.packages()) == (4, 1)
    assert machine.smt is False


def test_core_ids_where_there_are_no_sibling_lists(box: Box) -> None:
    box.put(f"{CPU}/online", "0-3\n")
    for number in range(4):
        box.cpu(number, core=number // 2, package=0, siblings=None)
    machine = box.read()
    assert machine.topology == Topology(tuple(Cpu(n, n // 2, 0, 0, n) for n in range(4)))
    assert machine.smt is True


def test_an_unknown_core_is_a_gap(box: Box) -> None:
    box.put(f"{CPU}/online", "0-1\n")
    for number in range(2):
        box.cpu(number, core=-1, package=0, siblings=None)
    assert isinstance(box.read().topology, Gap)


def test_offline_cpus_have_no_topology_and_need_none(box: Box) -> None:
    two_sockets(box).put(f"{CPU}/online", "0-2\n")
    topology = box.read().topology
    assert isinstance(topology, Topology)
    assert topology.all() == CpuSet.of(range(3))


def test_a_virtual_machine_with_nothing_gives_gaps(box: Box) -> None:
    machine = box.read()
    assert all(isinstance(getattr(machine, field), Gap) for field in machine.__struct_fields__)
    assert isinstance(read_ticks(box.roots), Gap)
    assert isinstance(read_pressure(box.roots), Gap)


def test_no_proc_and_no_sys_give_gaps(tmp_path: Path) -> None:
    roots = Roots(proc=f"{tmp_path}/no", sys=f"{tmp_path}/no")
    machine = read_machine(roots)
    assert all(isinstance(getattr(machine, field), Gap) for field in machine.__struct_fields__)


def test_a_gap_names_the_file(box: Box) -> None:
    online = read_online(box.roots)
    assert isinstance(online, Gap)
    assert online.reason.startswith(f"{box.roots.sys}/devices/system/cpu/online is not readable")


@pytest.mark.parametrize("text", ["\n", "", "x", "0-99999999", "0-3,"])
def test_no_online_cpus_is_a_gap(box: Box, text: str) -> None:
    box.put(f"{CPU}/online", text)
    assert isinstance(read_online(box.roots), Gap)


def test_the_ticks(box: Box) -> None:
    two_sockets(box)
    assert read_ticks(box.roots) == MachineTicks(CpuTicks(4, 3, 2, 1), {0: CpuTicks(4, 3, 2, 1)})


def test_one_broken_file_spoils_one_answer(box: Box) -> None:
    """Not the others: a machine without topology still has its model, and so on."""
    two_sockets(box).put(f"{CPU}/intel_pstate/no_turbo", "0\n")
    whole = box.read()
    spoilt: dict[str, set[str]] = {}
    for path in box.files():
        before = path.read_bytes()
        path.write_bytes(b"\xff garbage \x00\n")
        now = box.read()
        path.write_bytes(before)
        fields = {f for f in whole.__struct_fields__ if getattr(now, f) != getattr(whole, f)}
        spoilt[str(path.relative_to(box.top))] = fields
    assert spoilt["proc/cpuinfo"] == {"model", "vendor"}
    assert spoilt["proc/pressure/cpu"] == {"psi"}
    assert spoilt["proc/stat"] == set()
    assert spoilt[f"{CPU}/intel_pstate/no_turbo"] == {"turbo"}
    assert spoilt[f"{CPU}/online"] == {"cpus", "topology"}
    assert spoilt[f"{CPU}/smt/active"] == set()  # the siblings tell
    assert spoilt[f"{CPU}/cpu3/topology/physical_package_id"] == {"topology"}
    assert spoilt[f"{NODE}/node1/cpulist"] == {"nodes", "topology"}


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50
)
@given(data=st.data())
def test_garbage_in_every_file_raises_nothing(box: Box, data: st.DataObject) -> None:
    if not box.files():
        two_sockets(box).put(f"{CPU}/intel_pstate/no_turbo", "0\n")
    for path in box.files():
        if data.draw(st.booleans()):
            path.write_bytes(data.draw(st.binary(max_size=30)))
    machine = box.read()
    assert machine.topology is not None
    read_ticks(box.roots)


def test_symbolic_link_loops_directories_and_pipes_are_gaps(box: Box) -> None:
    two_sockets(box)
    for path in box.files():
        path.unlink()
    loop = box.top / "proc/cpuinfo"
    loop.symlink_to(loop)
    (box.top / "proc/pressure/cpu").mkdir()
    os.mkfifo(box.top / CPU / "online")
    machine = box.read()
    assert isinstance(machine.model, Gap)
    assert "symbolic links" in machine.model.reason
    assert isinstance(machine.psi, Gap)
    assert isinstance(machine.cpus, Gap)


def test_a_loop_of_directories_is_a_gap(box: Box) -> None:
    (box.top / "sys/devices/system").mkdir(parents=True)
    (box.top / NODE).symlink_to(box.top / NODE)
    nodes = box.read().nodes
    assert isinstance(nodes, Gap)
    assert "symbolic links" in nodes.reason


def test_huge_files_are_gaps(box: Box) -> None:
    two_sockets(box).put(f"{CPU}/intel_pstate/no_turbo", "0\n")
    for path in box.files():
        path.write_bytes(b"0" * 10_000_000)
    machine = box.read()
    gaps = {f for f in machine.__struct_fields__ if isinstance(getattr(machine, f), Gap)}
    assert gaps == set(machine.__struct_fields__)
    assert isinstance(read_ticks(box.roots), Gap)


def test_this_machine(tmp_path: Path) -> None:
    """The tree of the machine that runs the tests: its online CPUs are Python's."""
    machine = read_machine(Roots())
    assert isinstance(machine.cpus, CpuSet)
    assert len(machine.cpus) == os.cpu_count()
    assert isinstance(machine.topology, Topology)
    assert machine.topology.all() == machine.cpus
