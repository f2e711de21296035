"""Why a workload was rotated or not, as a word for scripts and metrics.

`rebalancer_rotation_decisions_total{reason}` has exactly these words.
"""

import enum


class Reason(enum.Enum):
    ROTATED = "rotated"
    DRY_RUN = "dry_run"
    NO_PODS_ABOVE_TOLERANCE = "no_pods_above_tolerance"
    PODS_TOO_YOUNG = "pods_too_young"
    INSUFFICIENT_IMPROVEMENT = "insufficient_improvement"
    MIN_PODS = "min_pods"
    CAPACITY_GUARD = "capacity_guard"
    CAPPED = "capped"
    OPTED_OUT = "opted_out"
    COOLDOWN = "cooldown"
    HPA_SCALING = "hpa_scaling"
    ROLLOUT_IN_PROGRESS = "rollout_in_progress"
    PDB_BLOCKED = "pdb_blocked"
    #: The program is to end, another replica leads, the new pods of a workload before this one do
    #: not become Ready, or the usage is too old by the time it is this workload's turn.
    STOPPED = "stopped"
    KAFKA_LAG_HIGH = "kafka_lag_high"
    KAFKA_LAG_LOW = "kafka_lag_low"
    KAFKA_LAG_UNKNOWN = "kafka_lag_unknown"
    KAFKA_REBALANCING = "kafka_rebalancing"
    KAFKA_STATIC_MEMBERS = "kafka_static_members"
    #: When it was last rotated cannot be read, or is farther ahead than clocks differ: it would be
    #: forbidden for ever, unless somebody removes the annotation.
    COOLDOWN_UNKNOWN = "cooldown_unknown"
    HPA_TARGET_MISSING = "hpa_target_missing"
    HPA_TARGET_AMBIGUOUS = "hpa_target_ambiguous"
    WORKLOAD_MISSING = "workload_missing"
    REQUEST_MISSING = "request_missing"
    NO_USAGE_DATA = "no_usage_data"
    PROMETHEUS_ERROR = "prometheus_error"
    KUBERNETES_ERROR = "kubernetes_error"


#: Something has to be repaired before the workload can be judged or rotated: exit code 1.
PROBLEMS = frozenset(
    (
        Reason.COOLDOWN_UNKNOWN,
        Reason.KAFKA_LAG_UNKNOWN,
        Reason.HPA_TARGET_MISSING,
        Reason.HPA_TARGET_AMBIGUOUS,
        Reason.WORKLOAD_MISSING,
        Reason.REQUEST_MISSING,
        Reason.NO_USAGE_DATA,
        Reason.PROMETHEUS_ERROR,
        Reason.KUBERNETES_ERROR,
    )
)


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
