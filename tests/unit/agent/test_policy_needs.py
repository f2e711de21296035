"""What the policies have to see, and when it is worked out again."""

from collections.abc import Sequence

from slackwater.agent.tick import PolicyNeeds, PolicyState, TickMemory
from slackwater.contract.kubernetes_pod import Pod, read_pod
from slackwater.model.cgroup import Level
from slackwater.model.decision import Act
from slackwater.model.knob import KnobKey
from slackwater.model.needs import Needs, ReadingField
from slackwater.policies.policy import Policy

TIMES, QUOTA = frozenset({ReadingField.TIMES}), frozenset({ReadingField.QUOTA})
CPUS, WEIGHT = frozenset({ReadingField.CPUS}), frozenset({ReadingField.WEIGHT})
POD = read_pod({"metadata": {"name": "p", "uid": "p"}, "spec": {"containers": []}}, "a test")


class Toy:
    """A policy that needs one thing for each reason, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.policy = Policy(
            "toy",
            "first",
            self.needs,
            lambda _, __, ___: Act(()),
            needs_of_pods=self.of_pods,
            needs_for_now=lambda _, memory: Needs({Level.NODE: CPUS} if memory == "now" else {}),
        )

    def needs(self, _: object, off: frozenset[KnobKey]) -> Needs:
        self.asked += 1
        return Needs({Level.TIER: WEIGHT if off else QUOTA})

    def of_pods(self, _: object, pods: Sequence[Pod]) -> Needs:
        return Needs({Level.POD: TIMES} if pods else {})


NOTHING_OFF: frozenset[KnobKey] = frozenset()


def test_all_reasons_together() -> None:
    toy, settings = Toy(), {"toy": object()}
    memory = TickMemory({"toy": PolicyState("now")})
    found = PolicyNeeds().find((toy.policy,), settings, NOTHING_OFF, (POD,), memory)
    assert found == Needs({Level.TIER: QUOTA, Level.POD: TIMES, Level.NODE: CPUS})


def test_a_policy_that_is_off_needs_nothing() -> None:
    toy = Toy()
    assert PolicyNeeds().find((toy.policy,), {}, NOTHING_OFF, (POD,), TickMemory()) == Needs()


def test_the_same_settings_and_pods_are_looked_at_once() -> None:
    toy, needs, settings, pods = Toy(), PolicyNeeds(), {"toy": object()}, (POD,)
    for memory, levels in (("first", 2), ("now", 3), ("first", 2)):
        remembered = TickMemory({"toy": PolicyState(memory)})
        found = needs.find((toy.policy,), settings, NOTHING_OFF, pods, remembered)
        assert len(found.fields) == levels
    assert toy.asked == 1


def test_other_pods_settings_and_knobs_are_looked_at_anew() -> None:
    toy, needs, settings = Toy(), PolicyNeeds(), {"toy": object()}
    off = frozenset({KnobKey(1, "quota")})
    none: tuple[Pod, ...] = ()
    needs.find((toy.policy,), settings, NOTHING_OFF, (POD,), TickMemory())
    assert needs.find((toy.policy,), settings, NOTHING_OFF, none, TickMemory()).at(Level.POD) == (
        frozenset()
    )
    assert needs.find((toy.policy,), settings, off, none, TickMemory()).at(Level.TIER) == WEIGHT
    needs.find((toy.policy,), {"toy": object()}, off, none, TickMemory())
    assert toy.asked == 4
