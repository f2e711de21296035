"""What is done to a cluster, and when: the same for the same seed. Pure.

In three rounds each program meets each fault once, in an order of the seed's; then it begins anew
in another one. Some steps strike two programs at once. Between the faults somebody changes what is
wanted of the node, so that an agent that comes back finds other policies than it left.
"""

import enum
import random
from collections.abc import Iterator

import msgspec


class Target(enum.Enum):
    """The programs, in the order in which they need each other."""

    API_SERVER = "kube-apiserver"
    CONTAINERD = "containerd"
    KUBELET = "kubelet"
    AGENT = "agent"
    MANAGER = "manager"


class Fault(enum.Enum):
    """`kill` is SIGKILL, `pause` SIGSTOP and later SIGCONT, `restart` SIGTERM. Whoever ended is
    started again later, the agent and the manager by the kubelet."""

    KILL = "kill"
    PAUSE = "pause"
    RESTART = "restart"


class Wish(enum.Enum):
    """What may be wanted of the node, or not."""

    TAINT = "taint"
    THROTTLE = "throttle"
    OFFER = "offer"


class Blow(msgspec.Struct, frozen=True):
    target: Target
    fault: Fault

    def words(self) -> str:
        return f"{self.fault.value} {self.target.value}"


class Step(msgspec.Struct, frozen=True):
    """`flips` is what is wanted from then on if it was not, and the other way round: before the
    blows, or while they last. They last `seconds`, and after them there is a `rest`."""

    blows: tuple[Blow, ...]
    seconds: float
    rest: float
    flips: Wish
    during: bool

    def words(self) -> str:
        blows = " and ".join(each.words() for each in self.blows)
        when = "meanwhile" if self.during else "before"
        return f"{blows} for {self.seconds:.1f} s, {when} {self.flips.value} changes"


#: Shorter than what makes a control plane give a node up (40 s), together with a slow start.
_SHORTEST, _LONGEST = 1.0, 6.0
_REST = 3.0
#: Of a second blow beside the first.
_TWICE = 0.3


def steps(seed: int) -> Iterator[Step]:
    """Without end."""
    chance = random.Random(seed)  # noqa: S311 - the same for the same seed
    faults = list(Fault)
    while True:
        shift = {target: chance.randrange(len(faults)) for target in Target}
        for turn in range(len(faults)):
            order = list(Target)
            chance.shuffle(order)
            blows = [Blow(each, faults[(turn + shift[each]) % len(faults)]) for each in order]
            while blows:
                together = min(len(blows), 2 if chance.random() < _TWICE else 1)
                yield _step(tuple(blows[:together]), chance)
                del blows[:together]


def _step(blows: tuple[Blow, ...], chance: random.Random) -> Step:
    ordered = sorted(blows, key=lambda blow: list(Target).index(blow.target))
    return Step(
        tuple(ordered),
        seconds=chance.uniform(_SHORTEST, _LONGEST),
        rest=chance.uniform(0.0, _REST),
        flips=chance.choice(list(Wish)),
        # Nobody changes anything without an API server.
        during=chance.random() < 0.5 and all(b.target is not Target.API_SERVER for b in blows),
    )


def steps_within(seed: int, seconds: float) -> Iterator[Step]:
    """As many as fit, by what they last; each program once at least."""
    left, met = seconds, set[Target]()
    for step in steps(seed):
        if left <= 0 and len(met) == len(Target):
            return
        yield step
        left -= step.seconds + step.rest
        met.update(blow.target for blow in step.blows)
