"""What the report asks of Prometheus, and how much of it: each query's values are bounded.

Pure. `matchers` are labels that all series of the cluster have, where one Prometheus holds several.
"""

from collections.abc import Iterator, Sequence

import msgspec

from slackwater.rebalancer.sources.promql import SERIES_LABELS, USAGE_METRIC, braces

Matchers = Sequence[tuple[str, str]]

#: Of one answer: nodes or pods times steps.
MOST_VALUES = 100_000
#: Of all answers about nodes; more nodes mean longer steps.
MOST_NODE_VALUES = 2_000_000
#: Prometheus gives at most 11,000 values of a series.
_MOST_POINTS = 10_000
STEPS = (300.0, 600.0, 900.0, 1800.0, 3600.0)
#: How often workloads and policies are looked at; fewer for many pods.
LOOKS, _FEWEST_LOOKS = 24, 4
_CONTAINER = (("container", "!=", ""), ("container", "!=", "POD"))


class QueryRange(msgspec.Struct, frozen=True):
    """From `start` to `end`, both asked for, each `step` seconds."""

    start: float
    end: float
    step: float


def choose_step(nodes: int, seconds: float) -> float:
    """The shortest with which all nodes' samples are not too many; the longest has to do."""
    fitting = (step for step in STEPS if nodes * seconds / step <= MOST_NODE_VALUES)
    return next(fitting, STEPS[-1])


def split_range(whole: QueryRange, series: int) -> Iterator[QueryRange]:
    """Parts whose answers are bounded, for so many series."""
    points = max(min(MOST_VALUES // max(series, 1), _MOST_POINTS), 1)
    start = whole.start
    while start <= whole.end:
        end = min(start + (points - 1) * whole.step, whole.end)
        yield QueryRange(start, end, whole.step)
        start = end + whole.step


def looks_of(start: float, end: float, series: int) -> QueryRange:
    """Some moments of the period, the last of them its end: of a week they are seven hours apart,
    so that all hours of the day have their turn."""
    count = max(min(LOOKS, MOST_VALUES // max(series, 1)), _FEWEST_LOOKS)
    step = max((end - start) / count, 60.0)
    return QueryRange(end - step * (int((end - start) / step + 1e-9) - 1), end, step)


def node_usage(matchers: Matchers, window: float) -> str:
    """CPUs in use by instance of the node exporter: those that there are, less idle ones."""
    chosen = braces(("mode", "=", "idle"), *_equal(matchers))
    idle = f"rate(node_cpu_seconds_total{chosen}[{window:.0f}s])"
    return f"{node_cpus(matchers)} - sum by (instance) (max by (instance, cpu) ({idle}))"


def node_cpus(matchers: Matchers) -> str:
    chosen = braces(("mode", "=", "idle"), *_equal(matchers))
    return f"count by (instance) (count by (instance, cpu) (node_cpu_seconds_total{chosen}))"


def node_names(matchers: Matchers) -> str:
    """The instance of each node, where its own name is not in it."""
    return f"max by (instance, nodename) (node_uname_info{braces(*_equal(matchers))})"


def pod_usage(matchers: Matchers, window: float) -> str:
    """Cores by pod, as the rebalancer counts them: a counter that is scraped twice counts once."""
    chosen = braces(*_CONTAINER, *_equal(matchers))
    each = ", ".join(("namespace", "pod", "container", *SERIES_LABELS))
    used = f"max by ({each}) (rate({USAGE_METRIC}{chosen}[{window:.0f}s]))"
    return f"sum by (namespace, pod) ({used})"


def pod_count(matchers: Matchers) -> str:
    chosen = braces(*_CONTAINER, *_equal(matchers))
    return f"count(count by (namespace, pod) ({USAGE_METRIC}{chosen}))"


def policies_on(matchers: Matchers) -> str:
    return f"sum by (policy) (slackwater_policy_enabled{braces(*_equal(matchers))})"


def policy_ticks(matchers: Matchers, window: float) -> str:
    counted = f"slackwater_policy_ticks_total{braces(*_equal(matchers))}[{window:.0f}s]"
    return f"sum by (policy, course) (increase({counted}))"


def agents(matchers: Matchers) -> str:
    return f"count(slackwater_node_cpu_usage_cores{braces(*_equal(matchers))})"


def deeds(matchers: Matchers, window: float) -> dict[str, str]:
    """By the field of the report: means, and counts of each window."""
    own = _equal(matchers)
    span = f"[{window:.0f}s]"
    best_effort = braces(("tier", "=", "besteffort"), *own)
    offers = braces(("resource", "=~", ".*cpu"), *own)
    applied = braces(("result", "=", "applied"), *own)
    evicted = braces(("kind", "=", "evict"), ("result", "=", "done"), *own)
    rotated = braces(("reason", "=", "rotated"), *own)
    plain = braces(*own)
    return {
        "best_effort": f"sum(slackwater_tier_cpu_usage_cores{best_effort})",
        "sold": f"sum(slackwater_oversold_sold{offers})",
        "exceeded": f"sum(increase(slackwater_oversold_exceeded_total{offers}{span}))",
        "ticks": f"sum(increase(slackwater_ticks_total{plain}{span}))",
        "changes": f"sum(increase(slackwater_knob_changes_total{applied}{span}))",
        "evictions": f"sum(increase(slackwater_commands_total{evicted}{span}))",
        "rotations": f"sum(increase(rebalancer_rotation_decisions_total{rotated}{span}))",
    }


def _equal(matchers: Matchers) -> tuple[tuple[str, str, str], ...]:
    return tuple((name, "=", value) for name, value in matchers)
