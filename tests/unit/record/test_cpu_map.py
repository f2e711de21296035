"""Who runs on which CPU: rows for CPUs and containers, and counts."""

import msgspec

from slackwater.model.cpus import KubeletCpus
from slackwater.model.decision import Remark
from slackwater.model.gap import Gap
from slackwater.model.units import MilliCpu
from slackwater.model.workload import WorkloadContainer
from slackwater.record.agent_view import AgentView
from slackwater.record.cpu_map import (
    ContainerCpus,
    CpuCounts,
    CpuMap,
    CpuRow,
    count_cpus,
    find_refused_pods,
    find_remarks,
    make_cpu_map,
    map_cpus,
)
from slackwater.record.journal import TickRecord
from tests.unit.policies.nodes import node
from tests.unit.record.cpu_ticks import (
    EXCLUSIVE,
    SHARE,
    container_ref,
    cpus,
    pinned_tick,
    placed,
    pod_with_cpus,
)
from tests.unit.record.tick_records import record

DATABASE = pod_with_cpus(1, "database", EXCLUSIVE)
CACHE = pod_with_cpus(2, "cache", SHARE)
WEB = pod_with_cpus(3, "web")
LATE = pod_with_cpus(4, "late", EXCLUSIVE)
HALF = pod_with_cpus(5, "half", EXCLUSIVE)
NOT_FREE = "2 CPUs of its own are not free, 0 are, so main runs on the CPUs that nobody holds alone"
BOUND = pinned_tick(
    (DATABASE, CACHE, WEB, LATE, HALF),
    (
        placed(DATABASE, EXCLUSIVE, "1,5"),
        placed(CACHE, SHARE, "2,6"),
        placed(LATE, EXCLUSIVE, "", refused=NOT_FREE),
    ),
    "0,2-4,6-7",
    (Remark("prod/late", NOT_FREE), Remark("prod/half", "no whole limit")),
)


def mapped(tick: TickRecord) -> CpuMap:
    found = map_cpus(tick)
    assert not isinstance(found, Gap), found
    return found


def test_each_container_has_its_cpus_and_the_reason() -> None:
    rest = "0,2-4,6-7"
    assert mapped(BOUND).containers == (
        ContainerCpus(
            "prod/database",
            "main",
            "exclusive",
            "1,5",
            "qos.gocrane.io/cpu-manager exclusive, 2 CPUs by its limit",
        ),
        ContainerCpus(
            "prod/cache",
            "main",
            "share",
            "2,6",
            "qos.gocrane.io/cpu-manager share, 2 CPUs by its limit",
        ),
        ContainerCpus("prod/web", "main", "none", rest, "every CPU that no container holds alone"),
        ContainerCpus("prod/late", "main", "none", rest, NOT_FREE),
        ContainerCpus("prod/half", "main", "none", rest, "no whole limit"),
    )


def test_each_cpu_says_where_it_is_and_whose() -> None:
    rows = mapped(BOUND).cpus
    assert [row.cpu for row in rows] == [*range(8)]
    assert rows[0] == CpuRow(0, core=0, l3=0, numa=0, socket=0, reserved=True)
    assert rows[5] == CpuRow(
        5, core=1, l3=0, numa=0, socket=0, reserved=False, exclusive="prod/database/main"
    )
    assert rows[6] == CpuRow(
        6, core=0, l3=2, numa=1, socket=1, reserved=False, shared=("prod/cache/main",)
    )


def test_a_cpu_is_counted_once() -> None:
    assert mapped(BOUND).counts == CpuCounts(exclusive=2, shared=2, reserved=1, default=3)


def test_refused_pods_are_told() -> None:
    assert find_remarks(BOUND) == {"prod/late": NOT_FREE, "prod/half": "no whole limit"}
    assert find_refused_pods(BOUND) == {"prod/late", "prod/half"}
    assert mapped(BOUND).remarks == (f"prod/late: {NOT_FREE}", "prod/half: no whole limit")


def test_a_pod_that_keeps_its_cpus_in_spite_of_a_bad_word_is_told_and_not_refused() -> None:
    told = (Remark("prod/cache", "a bad word"), Remark("prod/late", "a bad word"))
    claims = (placed(CACHE, SHARE, "2,6"), placed(LATE, SHARE, "", refused=NOT_FREE))
    tick = pinned_tick((CACHE, LATE), claims, "0-7", (*told, Remark("prod/late", NOT_FREE)))
    assert mapped(tick).remarks == ("prod/cache: a bad word", f"prod/late: a bad word; {NOT_FREE}")
    assert find_refused_pods(tick) == {"prod/late"}


def test_what_the_kubelet_pinned_is_its_own() -> None:
    """Its own CPU manager has given WEB two CPUs; nothing of ours is bound."""
    kubelet = KubeletCpus("static", {"3": {"main": cpus("3,7")}})
    tick = pinned_tick((WEB, CACHE), (), "", kubelet_cpus=kubelet)
    unbound = msgspec.structs.replace(tick.story, placement=None)
    found = mapped(msgspec.structs.replace(tick, story=unbound))
    assert found.kubelet == "static"
    assert found.common == "0-2,4-6"
    assert [(each.policy, each.cpus) for each in found.containers] == [
        ("exclusive", "3,7"),
        ("none", "0-2,4-6"),
    ]
    assert found.containers[0].because == "pinned by the kubelet's CPU manager"
    assert found.counts == CpuCounts(exclusive=2, reserved=1, default=5)


def test_without_the_machine_there_is_no_map() -> None:
    blind = record(msgspec.structs.replace(node(), topology=Gap("the CPUs cannot be read")))
    assert map_cpus(blind) == Gap("the CPUs cannot be read")
    assert count_cpus(blind.snapshot, None) == Gap("the CPUs cannot be read")


def test_of_an_agent() -> None:
    assert make_cpu_map(AgentView()) == Gap("no tick yet")
    off = {"core_pinning": "corePinning.enabled is false"}
    found = make_cpu_map(AgentView(ticks=(BOUND,), off=off))
    assert not isinstance(found, Gap)
    assert found.off == "corePinning.enabled is false"
    assert found.at is not None
    assert make_cpu_map(AgentView(ticks=(record(),))) == node().topology


def test_json_has_the_documented_keys() -> None:
    plain = msgspec.to_builtins(mapped(BOUND))
    assert plain.keys() == {
        "apiVersion", "kind", "at", "off", "kubelet", "common", "counts", "cpus", "containers",
        "remarks", "moves",
    }  # fmt: skip
    assert plain["cpus"][0].keys() == {
        "cpu", "core", "l3", "numa", "socket", "reserved", "exclusive", "shared",
    }  # fmt: skip
    assert plain["containers"][0].keys() == {"pod", "container", "policy", "cpus", "because"}
    assert msgspec.convert(plain, CpuMap) == mapped(BOUND)


def test_what_a_defragmentation_would_move() -> None:
    """Two containers on a half of each of two cores; no setting allows to move them."""
    one, two = pod_with_cpus(1, "one"), pod_with_cpus(2, "two")
    claims = (placed(one, EXCLUSIVE, "1,2"), placed(two, EXCLUSIVE, "5,6"))
    torn = pinned_tick((one, two), claims, "0,3-4,7")
    assert [(each.pod, each.before, each.after) for each in mapped(torn).moves] == [
        ("prod/one", "1-2", "1,5"),
        ("prod/two", "5-6", "2,6"),
    ]
    assert mapped(BOUND).moves == ()


def test_a_container_that_does_not_qualify_has_its_own_reason() -> None:
    """What is told of its pod is about the one that asks."""
    side = WorkloadContainer("side", container_ref(6), MilliCpu(500), MilliCpu(500))
    pod = msgspec.structs.replace(LATE, containers=(*LATE.containers, side))
    tick = pinned_tick(
        (pod,),
        (placed(pod, EXCLUSIVE, "", refused=NOT_FREE),),
        "0-7",
        (Remark("prod/late", NOT_FREE),),
    )
    main, other = mapped(tick).containers
    assert main.because == NOT_FREE
    assert other.because.endswith("equal to the request; it has request 500m and limit 500m")


def test_a_cpu_that_somebody_cannot_be_kept_off() -> None:
    stuck = "batch/job/c could not be kept off CPUs of main (a group below has other CPUs)"
    held = msgspec.structs.replace(placed(DATABASE, EXCLUSIVE, "1,5"), shared=stuck)
    [container] = mapped(pinned_tick((DATABASE,), (held,), "0,2-4,6-7")).containers
    assert container.policy == "exclusive"
    assert container.because.endswith(f"2 CPUs by its limit; {stuck}")
