"""`slackwater cpus`: the picture in any width, the legend, and what a script gets."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from slackwater.cli.cpu_picture import codes_of, draw_machine
from slackwater.cli.cpus import describe_cpus, describe_plan
from slackwater.cli.output import Output
from slackwater.model.cpus import CpuSet
from slackwater.record.cpu_map import ContainerCpus, CpuCounts, CpuMap, CpuMoveRow, CpuRow
from slackwater.simulation.scenario_machine import ScenarioMachine, build_topology
from tests.unit.cli.served import always, served_agent, slackwater


def container(name: str, policy: str, cpus: str) -> ContainerCpus:
    return ContainerCpus(f"prod/{name}", "main", policy, cpus, f"it is {policy}")


def cpu_map(machine: ScenarioMachine, *containers: ContainerCpus, **more: object) -> CpuMap:
    alone = {n: c for c in containers if c.policy == "exclusive" for n in CpuSet.parse(c.cpus)}
    shared = {n: c for c in containers if c.policy == "share" for n in CpuSet.parse(c.cpus)}
    rows = tuple(
        CpuRow(
            cpu.number,
            cpu.core,
            cpu.cache,
            cpu.node,
            cpu.package,
            reserved=cpu.number == 0,
            exclusive=alone[cpu.number].title() if cpu.number in alone else None,
            shared=(shared[cpu.number].title(),) if cpu.number in shared else (),
        )
        for cpu in build_topology(machine).cpus
    )
    counts = CpuCounts(exclusive=len(alone), shared=len(shared), reserved=1)
    return CpuMap(cpus=rows, containers=containers, counts=counts, common="0", **more)  # type: ignore[arg-type]


TWO_SOCKETS = ScenarioMachine(cores=4, sockets=2, threads=2, l3=4)
BOUND = cpu_map(
    TWO_SOCKETS,
    container("database", "exclusive", "2-3,10-11"),
    container("cache", "share", "4,12"),
    container("web", "none", "0-1"),
)


def drawn(found: CpuMap, width: int = 100) -> list[str]:
    return [line.plain.rstrip() for line in draw_machine(found, codes_of(found), width)]


def shown(found: CpuMap, output: Output = Output.TABLE, width: int = 110) -> str:
    console = Console(width=width, color_system=None, force_terminal=False)
    with console.capture() as capture:
        for block in describe_cpus(found, output, width):
            console.print(block)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def test_the_picture() -> None:
    assert drawn(BOUND) == [
        "socket 0, NUMA node 0",
        "  L3 0  0-1,8-9    #· ··   L3 2  2-3,10-11  AA AA",
        "socket 1, NUMA node 1",
        "  L3 4  4-5,12-13  bb ··   L3 6  6-7,14-15  ·· ··",
    ]


def test_caches_go_below_each_other_on_a_narrow_screen() -> None:
    assert drawn(BOUND, 40)[:3] == [
        "socket 0, NUMA node 0",
        "  L3 0  0-1,8-9    #· ··",
        "  L3 2  2-3,10-11  AA AA",
    ]


def test_a_cache_of_many_cores_goes_on_in_the_next_line() -> None:
    found = drawn(cpu_map(ScenarioMachine(cores=64, threads=2)), 60)
    assert found[0] == "socket 0, NUMA node 0"
    assert found[1].startswith("  L3 0  0-127  #· ··")
    assert found[2].startswith("               ·· ··")
    assert all(len(line) <= 60 for line in found)


def test_the_nodes_of_a_socket_are_named_where_there_are_several() -> None:
    assert "socket 0, NUMA nodes 0, 1" in drawn(cpu_map(ScenarioMachine(cores=8, l3=4, numa=2)))
    found = drawn(cpu_map(ScenarioMachine(cores=8, l3=4, numa=2)))
    assert "L3 4 NUMA 1  4-7" in found[1]


def test_more_containers_than_letters() -> None:
    many = [container(f"p{n}", "exclusive", str(n)) for n in range(1, 40)]
    found = drawn(cpu_map(ScenarioMachine(cores=64), *many), 400)
    assert found[1].split()[3:7] == ["#", "Aa", "Ab", "Ac"]
    assert len({code.text for code in codes_of(cpu_map(TWO_SOCKETS, *many)).values()}) == 39


@given(
    st.builds(
        ScenarioMachine,
        cores=st.sampled_from([1, 2, 8, 64]),
        sockets=st.integers(1, 4),
        threads=st.integers(1, 2),
    ),
    st.integers(60, 200),
)
def test_every_cpu_is_drawn_once_in_any_width(machine: ScenarioMachine, width: int) -> None:
    found = drawn(cpu_map(machine), width)
    assert all(len(line) <= width for line in found)
    assert sum(line.count("·") + line.count("#") for line in found) == machine.cpus()


def test_the_legend_says_who_and_why() -> None:
    found = shown(BOUND)
    assert "Machine  2 sockets, 8 cores, 16 CPUs, 4 L3 caches, 2 NUMA nodes" in found
    assert "CPUs     4 exclusive, 2 shared, 1 reserved, 0 others" in found
    assert "A  2-3,10-11  exclusive  prod/database/main  it is exclusive" in found
    assert "b  4,12       share      prod/cache/main     it is share" in found
    assert "·  0          none       1 container" in found
    assert "prod/web/main" not in found
    assert "prod/web/main" in shown(BOUND, Output.WIDE)


def test_what_is_off_says_what_to_set() -> None:
    found = shown(cpu_map(ScenarioMachine(cores=2), off="corePinning.enabled is false"), width=300)
    assert (
        "core_pinning is off: corePinning.enabled is false; to bind containers: "
        "corePinning.enabled: true in the agent's settings, and "
        "qos.gocrane.io/cpu-manager: exclusive or share on a pod" in found
    )


def test_pods_that_got_none_are_told() -> None:
    found = shown(cpu_map(TWO_SOCKETS, remarks=("prod/late: not enough CPUs",)))
    assert found.endswith("prod/late: not enough CPUs")


def test_two_that_share_a_cpu() -> None:
    both = CpuRow(0, 0, 0, 0, 0, reserved=False, shared=("a/b/c", "d/e/f"))
    assert drawn(CpuMap(cpus=(both,)))[1] == "  L3 0  0  +"


@pytest.mark.long
def test_as_a_command() -> None:
    with served_agent(always(BOUND)) as agent:
        found = slackwater("cpus", "--agent", agent.address, "-o", "json")
        assert json.loads(found.stdout)["containers"][0]["cpus"] == "2-3,10-11"
        plain = slackwater("cpus", "--agent", agent.address, NO_COLOR="1", COLUMNS="100")
        assert "\x1b" not in plain.stdout
        assert "AA AA" in plain.stdout
        assert agent.asked == ["/v1/cpus", "/v1/cpus"]
    gone = slackwater("cpus", "--agent", agent.address)
    assert gone.returncode == 1
    assert gone.stderr.startswith("slackwater: no agent answers at")


def planned(found: CpuMap) -> str:
    console = Console(width=100, color_system=None, force_terminal=False)
    with console.capture() as capture:
        for block in describe_plan(found):
            console.print(block)
    return capture.get()


def test_a_plan_to_defragment() -> None:
    moves = (CpuMoveRow("prod/database", "main", "1-2", "1,9"),)
    text = planned(cpu_map(TWO_SOCKETS, moves=moves))
    for part in ("prod/database/main", "1-2", "1,9", "corePinning.defragment"):
        assert part in text


def test_a_plan_with_nothing_to_do() -> None:
    assert planned(BOUND).startswith("Nothing to defragment")


@pytest.mark.long
def test_the_flag_shows_the_plan_alone() -> None:
    with served_agent(always(BOUND)) as agent:
        done = slackwater("cpus", "--plan-defragment", "--agent", agent.address)
        assert done.returncode == 0
        assert done.stdout.startswith("Nothing to defragment")
