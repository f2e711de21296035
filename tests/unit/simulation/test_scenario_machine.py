"""The machine of a scenario: numbered as Linux does, and refused where its parts do not fit."""

import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.contract.decoding import read_struct
from slackwater.contract.document import Field
from slackwater.model.cpus import Cpu
from slackwater.model.gap import Gap
from slackwater.model.problem import InvalidError
from slackwater.model.units import Micros
from slackwater.simulation.scenario_file import scenario_in
from slackwater.simulation.scenario_machine import (
    MOST_CPUS,
    ScenarioMachine,
    build_topology,
    plain_machine,
)
from slackwater.simulation.simulation_run import Simulation
from tests.unit.simulation.mortal import MEMORY


def test_two_sockets_of_four_cores_with_two_threads() -> None:
    """First threads first: 0-3 and 8-11 are the first socket."""
    machine = ScenarioMachine(cores=4, sockets=2, threads=2, l3=4, numa=2)
    found = build_topology(machine)
    assert [cpu.number for cpu in found.cpus] == [*range(16)]
    assert found.siblings(1).format() == "1,9"
    assert found.cpus[5] == Cpu(number=5, core=1, package=1, node=1, cache=4)
    assert found.cpus[15] == Cpu(number=15, core=3, package=1, node=1, cache=6)
    assert (found.cores(), found.packages(), found.nodes()) == (8, 2, (0, 1))


@pytest.mark.parametrize(
    ("machine", "caches", "nodes"),
    [
        (ScenarioMachine(cores=4), {0}, {0}),
        (ScenarioMachine(cores=4, sockets=2), {0, 4}, {0, 1}),
        (ScenarioMachine(cores=4, sockets=2, numa=1), {0, 4}, {0}),
        (ScenarioMachine(cores=8, threads=2, l3=4, numa=4), {0, 2, 4, 6}, {0, 1, 2, 3}),
        (plain_machine(3), {0}, {0}),
    ],
)
def test_caches_and_nodes(machine: ScenarioMachine, caches: set[int], nodes: set[int]) -> None:
    found = build_topology(machine)
    assert {cpu.cache for cpu in found.cpus} == caches
    assert {cpu.node for cpu in found.cpus} == nodes


@given(st.integers(1, 4), st.integers(1, 8), st.integers(1, 2), st.integers(1, 4))
def test_every_group_has_the_same_size(
    sockets: int, cores_per_cache: int, threads: int, caches: int
) -> None:
    cores = cores_per_cache * caches
    machine = ScenarioMachine(
        cores=cores, sockets=sockets, threads=threads, l3=cores_per_cache * threads
    )
    assert list(machine.conflicts()) == []
    found = build_topology(machine).cpus
    assert len({cpu.number for cpu in found}) == machine.cpus() == len(found)
    for cache in {cpu.cache for cpu in found}:
        inside = [cpu.number for cpu in found if cpu.cache == cache]
        assert min(inside) == cache
        assert len(inside) == machine.l3


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"cores": 0}, "spec.machine.cores is 0, but must be a whole number, 1 to 512"),
        ({}, "spec.machine.cores is missing, but must be a whole number, 1 to 512"),
        ({"cores": 300, "sockets": 2}, "spec.machine.cores is 2 × 300 × 1, but must be at most"),
        (
            {"cores": 4, "threads": 2, "l3": 3},
            "spec.machine.l3 is 3, but must be whole cores that divide the 8 CPUs of a socket",
        ),
        (
            {"cores": 4, "numa": 3},
            "spec.machine.numa is 3, but must be nodes that divide the machine's 4 cores",
        ),
        (
            {"cores": 4, "reserved": "4"},
            "spec.machine.reserved is '4', but must be at least one of CPUs 0 to 3",
        ),
        (
            {"cores": 4, "reserved": "zero"},
            "spec.machine.reserved is 'zero', but must be a CPU list such as 0-1,8",
        ),
        ({"cores": 4, "dies": 2}, "a key of s.yaml: spec.machine is 'dies', but must be one of"),
    ],
)
def test_what_does_not_make_up_a_machine_is_refused(said: object, sentence: str) -> None:
    with pytest.raises(InvalidError) as caught:
        read_struct(Field("s.yaml", "spec.machine", said), ScenarioMachine)
    assert str(caught.value).removeprefix("s.yaml: ").startswith(sentence)


def document(**spec: object) -> object:
    head = {"apiVersion": "slackwater.io/v1", "kind": "Scenario"}
    return {**head, "spec": {"duration": "10s", **spec}}


def test_a_machine_stands_for_its_cpus() -> None:
    found = scenario_in(document(machine={"cores": 4, "threads": 2}), "s.yaml")
    assert found.cpus == 8
    assert found.machine == ScenarioMachine(cores=4, threads=2)
    assert scenario_in(document(cpus=8, machine={"cores": 8}), "s.yaml").cpus == 8
    assert scenario_in(document(cpus=8), "s.yaml").machine == plain_machine(8)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({}, f"s.yaml: spec.cpus is missing, but must be a whole number, 1 to {MOST_CPUS}, where "),
        ({"cpus": 4, "machine": {"cores": 8}}, "s.yaml: spec.cpus is 4, but must be absent, or "),
    ],
)
def test_cpus_and_a_machine_must_agree(spec: dict[str, object], sentence: str) -> None:
    with pytest.raises(InvalidError) as caught:
        scenario_in(document(**spec), "s.yaml")
    assert str(caught.value).startswith(sentence)


def test_an_annotation_that_changes_while_the_pod_runs() -> None:
    """none, share, exclusive and back; a word that is none is told, and the pod goes on."""
    key = "qos.gocrane.io/cpu-manager"
    words = {10: "share", 20: "exclusive", 30: "Exclusive", 40: "none"}
    pod = {"name": "web", "tier": "guaranteed", "request": 2, "limit": 2, "demand": 1}
    scenario = scenario_in(
        document(
            machine={"cores": 4},
            duration="50s",
            settings={"corePinning": {"enabled": True}},
            pods=[pod, {"name": "other", "tier": "burstable", "demand": 1}],
            events=[
                {"at": f"{at}s", "kind": "pod-annotated", "pod": "web", "annotations": {key: word}}
                for at, word in words.items()
            ],
        ),
        "s.yaml",
    )
    seen: dict[int, tuple[str, str]] = {}
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        simulation = Simulation(scenario, folder)

        def watch(at: Micros, _done: object) -> None:
            cpus = [simulation.node.container_cpus(name) for name in ("web", "other")]
            web, other = ("" if isinstance(each, Gap) else each.format() for each in cpus)
            seen[at // 1_000_000] = web, other

        simulation.run(watch)
        assert simulation.release() == 0
        simulation.close()
    everything = ("0-3", "0-3")
    assert seen[9] == everything
    assert seen[10] == ("1-2", "0-3")
    assert seen[20] == ("1-2", "0,3")
    assert seen[40] == everything


def test_only_pods_of_the_scenario_can_be_annotated() -> None:
    event = {"at": "1s", "kind": "pod-annotated", "pod": "besteffort", "annotations": {}}
    with pytest.raises(InvalidError) as caught:
        scenario_in(document(cpus=2, events=[event]), "s.yaml")
    assert str(caught.value) == (
        "s.yaml: spec.events[0].pod is 'besteffort', but must be the name of a pod of the scenario"
    )
