"""Why a workload was rotated, or was not: one word for scripts and metrics.

Owns the words. `rebalancer_rotation_decisions_total{reason}` has exactly these.
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
    #: We were asked to end, another replica leads, new pods of one before it do not come, or the
    #: round took too long before its turn came.
    STOPPED = "stopped"
    KAFKA_LAG_HIGH = "kafka_lag_high"
    KAFKA_LAG_LOW = "kafka_lag_low"
    KAFKA_LAG_UNKNOWN = "kafka_lag_unknown"
    KAFKA_REBALANCING = "kafka_rebalancing"
    KAFKA_STATIC_MEMBERS = "kafka_static_members"
    HPA_TARGET_MISSING = "hpa_target_missing"
    HPA_TARGET_AMBIGUOUS = "hpa_target_ambiguous"
    WORKLOAD_MISSING = "workload_missing"
    REQUEST_MISSING = "request_missing"
    NO_USAGE_DATA = "no_usage_data"
    PROMETHEUS_ERROR = "prometheus_error"
    KUBERNETES_ERROR = "kubernetes_error"


#: Somebody has to mend something before this workload can be judged or rotated: exit code 1.
PROBLEMS = frozenset(
    (
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
