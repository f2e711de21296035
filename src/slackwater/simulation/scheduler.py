"""Lets virtual time pass: who ran, who was throttled, who went without.

Owns the fake kernel's clock and its one loop. Divides CPU in stretches that end where a quota's
period ends or a demand changes, a period at most. Where nothing changes from one round of periods
to the next, it counts the round as often as it would happen: the same numbers, sooner.
"""

import math

from slackwater.model.units import DEFAULT_PERIOD, Micros, Unlimited
from slackwater.simulation.fair_share import Claim, Pool, divide, pools_of
from slackwater.simulation.group import NICE_0_SHARES, Group, Task
from slackwater.simulation.runtime import NANOS
from slackwater.simulation.workloads import FOREVER


class _Layout:
    """The tree as the scheduler walks it; made anew after each change of the tree."""

    def __init__(self, root: Group) -> None:
        self.groups = list(root.below())
        self.find_limits()
        self.work: list[tuple[Task, Claim]] = []
        for group in self.groups:
            mask = group.effective_cpus().mask
            own = [Claim(NICE_0_SHARES * task.threads, mask) for task in group.tasks.values()]
            self.work += zip(group.tasks.values(), own, strict=True)
            claim = group.claim = Claim(group.shares(), mask)
            claim.claims = own
        for group in self.groups:
            group.claim.claims = [*group.claim.claims, *(c.claim for c in group.children.values())]
        self.claims = [group.claim for group in self.groups]
        self.widths = [(claim, claim.mask.bit_count()) for claim in self.claims]
        self.pools: list[Pool] = pools_of([claim for _, claim in self.work], root.cpus.mask)

    def find_limits(self) -> None:
        """Who has a quota, and of which period; the only part that a quota changes."""
        self.limited = [g for g in self.groups if not isinstance(g.runtime.quota, Unlimited)]
        self.periods = sorted({g.runtime.period for g in self.limited} | {DEFAULT_PERIOD})
        #: After so long all periods end together, and the round starts anew.
        self.round = Micros(math.lcm(*self.periods))


class Scheduler:
    """Guards the clock."""

    def __init__(self, root: Group) -> None:
        self.now = Micros(0)
        self._root = root
        self._layout: _Layout | None = None
        self._levels: list[tuple[Claim, int]] = []

    def forget_layout(self) -> None:
        """To be called after each change of a group, a task or a setting but a quota."""
        self._layout = None

    def forget_limits(self) -> None:
        """To be called after each change of a quota or a burst."""
        if self._layout is not None:
            self._layout.find_limits()

    def advance(self, micros: Micros) -> None:
        end = Micros(self.now + micros)
        while self.now < end:
            layout = self._layout = self._layout or _Layout(self._root)
            changes = [task.demand.holds_until(self.now) for task, _ in layout.work]
            until = Micros(min(end, *changes, FOREVER))
            self._levels = [(claim, task.level(self.now)) for task, claim in layout.work]
            self._run(layout, until)

    def _run(self, layout: _Layout, until: Micros) -> None:
        """To a time up to which every demand is constant."""
        while self.now < until:
            if self.now % layout.round == 0 and until - self.now >= 2 * layout.round:
                self._run_rounds(layout, until)
            else:
                self._step(layout, until)

    def _run_rounds(self, layout: _Layout, until: Micros) -> None:
        """One round; and if it left every budget as it found it, all that would follow."""
        start = [group.runtime.state() for group in layout.limited]
        counted = [group.runtime.counters() for group in layout.limited]
        used = [(group, group.used, group.lost) for group in layout.groups]
        end = Micros(self.now + layout.round)
        while self.now < end:
            self._step(layout, end)
        if start != [group.runtime.state() for group in layout.limited]:
            return
        times = (until - self.now) // layout.round
        for group, before in zip(layout.limited, counted, strict=True):
            group.runtime.repeat(before, times)
        for group, used_before, lost_before in used:
            group.used += times * (group.used - used_before)
            group.lost += times * (group.lost - lost_before)
        self.now = Micros(self.now + times * layout.round)

    def _step(self, layout: _Layout, until: Micros) -> None:
        now = self.now
        end = min(until, *(now - now % period + period for period in layout.periods))
        micros = end - now
        duration = micros * NANOS
        for claim, width in layout.widths:
            claim.limit = width * duration
        for group in layout.limited:
            group.claim.limit = min(group.claim.limit, group.runtime.left)
        for claim, level in self._levels:
            # milliCPU × us = ns
            claim.wanted = level * micros
            claim.usable = min(claim.wanted, claim.mask.bit_count() * duration)
        divide(layout.claims, layout.pools, duration)
        for group in layout.groups:
            claim = group.claim
            group.used += claim.got
            group.lost += claim.wanted - claim.got
        self.now = Micros(end)
        for group in layout.limited:
            possible = min(group.claim.asked, group.claim.mask.bit_count() * duration)
            group.runtime.spend(group.claim.got, possible, duration)
            if end % group.runtime.period == 0:
                group.runtime.end_period()
