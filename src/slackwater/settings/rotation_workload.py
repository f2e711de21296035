"""Settings of one workload: which pods are meant, and when they are rotated.

Owns their bounds and their prose. The defaults are the Structs' in settings.rotation.
"""

from slackwater.settings import rotation_shapes as shapes
from slackwater.settings.bound import Bound, Unit
from slackwater.settings.real import Real
from slackwater.settings.rebalancer import MoveSettings, WorkloadSettings
from slackwater.settings.rotation_entry import Entry, Scope
from slackwater.settings.rotation_kafka import KAFKA
from slackwater.settings.wording import Wording

_SECOND = 1_000_000
_DAY = 86_400 * _SECOND
_MOVES = MoveSettings()
_WORKLOAD = WorkloadSettings("default", "-")

IDENTITY = (
    Entry(
        Wording(
            "namespace", _WORKLOAD.namespace, shapes.NAMESPACE,
            "Where the workload is.",
        ),
        ("namespace",), Scope.IDENTITY,
    ),
    Entry(
        Wording(
            "kind", _WORKLOAD.kind, shapes.KIND,
            "What the workload is. Only these three have their pods replaced one for one.",
        ),
        ("kind",), Scope.IDENTITY, otherwise="what its HPA scales",
    ),
    Entry(
        Wording(
            "container", _WORKLOAD.container, shapes.CONTAINER,
            "Whose CPU counts. A ContainerResource metric of the HPA names its own; * is the whole "
            "pod, as the HPA's Resource metric counts it.",
        ),
        ("container",), Scope.IDENTITY,
        otherwise="the HPA's, else the one called like the workload, else all",
    ),
    Entry(
        Wording(
            "selector", _WORKLOAD.selector, shapes.SELECTOR,
            "Only those of the workload's pods count that have these labels.",
        ),
        ("selector",), Scope.IDENTITY,
    ),
)  # fmt: skip

HPA = (
    Entry(
        Wording(
            "hpaPrefix", _WORKLOAD.hpa_prefix, shapes.PREFIX,
            "What may stand before the workload's name in the HPA's name. KEDA's is keda-hpa-, "
            "with or without the last dash; the word none is no prefix.",
            nothing="none",
        ),
        ("hpa_prefix",), Scope.WORKLOAD,
    ),
    Entry(
        Wording(
            "hpaMetric", _WORKLOAD.hpa_metric, shapes.METRIC,
            "Which of the HPA's metrics has the target.",
        ),
        ("hpa_metric",), Scope.WORKLOAD,
    ),
)  # fmt: skip

MOVES = (
    Entry(
        Bound(
            "topK", _MOVES.top_k, 1, None, Unit.COUNT,
            "How many of the hottest and how many of the coldest pods are looked at.",
        ),
        ("moves", "top_k"), Scope.WORKLOAD,
    ),
    Entry(
        Real(
            "tolerance", _MOVES.tolerance, 1.0, None,
            "A hot pod is one above the HPA's target times this. Exactly at it is not above it.",
        ),
        ("moves", "tolerance"), Scope.WORKLOAD,
    ),
    Entry(
        Real(
            "minimumImprovement", _MOVES.minimum_improvement, 0.0, 100.0,
            "By how much the hot pods' average has to fall when they are mixed with the cold ones. "
            "It has to be more than this; with topK 2 it is never more than 66.7 %.",
            unit=" %",
        ),
        ("moves", "minimum_improvement"), Scope.WORKLOAD,
    ),
    Entry(
        Bound(
            "minimumPods", _MOVES.minimum_pods, 1, None, Unit.COUNT,
            "So many ready pods have to be left besides those that go.",
        ),
        ("moves", "minimum_pods"), Scope.WORKLOAD,
    ),
    Entry(
        Bound(
            "window", _MOVES.window, _SECOND, _DAY, Unit.DURATION,
            "Over what time CPU usage is averaged. At least four times the interval at which "
            "Prometheus scrapes; metrics.k8s.io has a window of its own.",
        ),
        ("moves", "window"), Scope.WORKLOAD,
    ),
    Entry(
        Bound(
            "minimumPodAge", _MOVES.youngest, 0, 7 * _DAY, Unit.DURATION,
            "A younger pod is left alone. Before the window is full its usage reads too low, so "
            "that a pod which was just rotated would look like the coldest.",
        ),
        ("moves", "minimum_pod_age"), Scope.WORKLOAD, otherwise="the window",
    ),
    Entry(
        Bound(
            "cooldown", _MOVES.pause, 0, _DAY, Unit.DURATION,
            "The shortest time between two rotations of one workload. After two in a row that did "
            "not bring half of what was predicted it is × 4, after three × 8 and so on, at most a "
            "day.",
        ),
        ("moves", "cooldown"), Scope.WORKLOAD, otherwise="twice the window",
    ),
    Entry(
        Bound(
            "batchSize", _MOVES.batch, 0, None, Unit.COUNT,
            "The most pods that are away at once. 0 is as many as the others can stand in for.",
        ),
        ("moves", "batch"), Scope.WORKLOAD,
    ),
)  # fmt: skip

WORKLOAD_ENTRIES: tuple[Entry, ...] = (*IDENTITY, *HPA, *MOVES, *KAFKA)
