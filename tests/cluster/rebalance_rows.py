"""The rebalancer's acceptance table as scenes and what they lead to, by the table's row numbers.

F6 is its fleet of six pods: 1.2, 1.1, 0.8, 0.6, 0.4 and 0.3 cores, where 0.7 are wanted and 1.05
are the threshold.
"""

import json
import math
import time

import msgspec

from slackwater.kube.api_time import format_time
from tests.cluster.rebalance_stage import WORKLOAD, Scene, Stage

F6 = (1.2, 1.1, 0.8, 0.6, 0.4, 0.3)
LAST_ROTATION = "slackwater.io/last-rotation"
KEDA = f"keda-hpa-{WORKLOAD}"
SCENES = (
    Scene("row-1", F6),
    Scene("row-3", (1.2, 1.0, 0.8, 0.6, 0.4, 0.3)),
    Scene("row-5", (0.9, 0.85, 0.8, 0.75), ((WORKLOAD, 50),)),
    Scene("row-7", (2.5, 2.4, 2.3, 1.0, 1.0, 1.0, 0.7, 0.6, 0.5)),
    Scene("row-9", (1.5, 1.2, 0.2)),
    Scene("row-11", (1.2, 1.0, 0.8, 0.4, 0.3)),
    Scene("row-13-none", F6, ()),
    Scene("row-13-two", F6, ((WORKLOAD, 70), (KEDA, 80))),
    Scene("row-15", (*F6[:5], math.nan)),
    Scene("row-17", F6),
    Scene("row-19", F6, available=5),
    Scene("row-21", (1.3,) * 6),
    Scene("row-23-scaling", F6),
    Scene("row-23-cooldown", F6),
    # Not of the table: a budget that lets nobody go, a target in cores, and pods that go.
    Scene("held", F6, available=6),
    Scene("cores", F6, ((WORKLOAD, "700m"),)),
    Scene("rotated", F6, ((KEDA, 70),)),
    Scene("rivals", F6),
    Scene("stateful", F6, kind="StatefulSet"),
)


class Row(msgspec.Struct, frozen=True):
    """A rotation. `left`: how many pods of the scene would stay Ready."""

    scene: str
    evict: str
    average: float
    predicted: float
    improvement: float
    left: int
    flags: tuple[str, ...] = ()


_K3 = ("--top-k", "3", "--tolerance", "2.0", "--minimum-improvement", "20")
ROTATE = (
    Row("row-1", "ABFE", 1.15, 0.75, 34.78, 2),
    Row("row-3", "AFE", 1.2, 0.6333, 47.22, 3),
    Row("row-7", "ABCIHG", 2.4, 1.5, 37.5, 3, _K3),
    Row("row-11", "AED", 1.2, 0.6333, 47.22, 2),
    Row("row-15", "ABED", 1.15, 0.825, 28.26, 2),
    Row("row-17", "BFE", 1.1, 0.6, 45.45, 3),
    Row("cores", "ABFE", 1.15, 0.75, 34.78, 2),
)


class Skip(msgspec.Struct, frozen=True):
    """None. `improvement` is None where it does not come so far; `because` is a regex."""

    scene: str
    reason: str
    code: int
    because: str
    improvement: float | None = None


SKIP = (
    Skip("row-5", "insufficient_improvement", 0, r"5\.7 ?%", 5.71),
    Skip("row-9", "min_pods", 0, "would leave 0 pods, minimum required is 2", 28.40),
    Skip("row-13-none", "hpa_target_missing", 1, "no HorizontalPodAutoscaler of namespace"),
    Skip("row-13-two", "hpa_target_ambiguous", 1, "wants 80 %, web wants 70 %"),
    Skip("row-21", "insufficient_improvement", 0, r"0\.0 ?%", 0.0),
    Skip("row-23-scaling", "hpa_scaling", 0, "from 6 to 8", 34.78),
    Skip("row-23-cooldown", "cooldown", 0, "4m", 34.78),
    Skip("held", "pdb_blocked", 0, "PodDisruptionBudget web lets 0 more pods go now", 34.78),
)


def prepare(stage: Stage, scene: str) -> None:
    """What a row says beside usage and targets."""
    match scene:
        case "row-17":
            stage.annotate(f"pod/{stage.names[scene]['A']}", scene, "slackwater.io/rotate=false")
        case "row-23-scaling":
            # The real controller finds no metrics and leaves the wish as it is.
            status = {"status": {"desiredReplicas": 8, "currentReplicas": 6}}
            patch = ("--type=merge", "--subresource=status", "-p", json.dumps(status))
            stage.plane.kubectl("patch", "hpa", WORKLOAD, "-n", scene, *patch)
        case "row-23-cooldown":
            last = {"at": format_time(time.time() - 240), "top": 1.15, "mean": 0.73}
            text = json.dumps({**last, "improvement": 34.8, "pods": 4, "hot": 2})
            stage.annotate(f"deploy/{WORKLOAD}", scene, f"{LAST_ROTATION}={text}")
