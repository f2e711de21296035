"""What the chart's dashboards show: four pages of panels, with their queries.

A node's series have the label `node`, which the chart's ServiceMonitor sets. No page needs
recording rules but for real utilisation, which says so. Every query is run in
tests/cluster/test_dashboards.py against a Prometheus that scraped the real programs.
"""

from tools.dashboards.grafana import Dashboard, Panel, Query, Row, Variable

_NODE = Variable("node", "slackwater_node_cpu_usage_cores", "node")
_RATE = "[$__rate_interval]"
_CPU_OFFERS = 'resource=~".*cpu"'


def _stat(title: str, about: str, text: str, unit: str = "short", width: int = 4) -> Panel:
    return Panel(title, about, (Query(text),), "stat", unit, width, 4)


_NODE_NOW = Row("Now", (
    _stat("CPU in use", "Of what the node offers to pods.",
          'sum(slackwater_node_cpu_usage_cores{node=~"$node"}) '
          '/ sum(slackwater_node_cpu_allocatable_cores{node=~"$node"})', "percentunit"),
    _stat("Best effort's quota", "In cores; infinite where it has none.",
          'sum(slackwater_tier_cpu_quota_cores{node=~"$node", tier="besteffort"})'),
    _stat("Values held", "Kernel values that Slackwater changed and would put back.",
          'sum(slackwater_knobs_held{node=~"$node"})'),
    _stat("Left to others", "Values that another program keeps changing, left to it for a while.",
          'sum(slackwater_knobs_yielded{node=~"$node"})'),
    _stat("Rules triggered", "Rules of NodeQOS objects, in Preview too.",
          'sum(slackwater_rule_state{node=~"$node", state="triggered"})'),
    _stat("Configuration problems", "/readyz and `slackwater explain` say which.",
          'sum(slackwater_configuration_problems{node=~"$node"})'),
))  # fmt: skip
_NODE_CPU = Row("CPU", (
    Panel("CPU in use, by tier", "In cores; the line is what the node offers to pods.", (
        Query('sum by (tier) (slackwater_tier_cpu_usage_cores{node=~"$node"})', "{{tier}}"),
        Query('sum(slackwater_node_cpu_usage_cores{node=~"$node"})', "the whole node"),
        Query('sum(slackwater_node_cpu_allocatable_cores{node=~"$node"})', "allocatable"),
    ), width=12),
    Panel("Best effort: allowed and used", "In cores. There is no line while it has no quota.", (
        Query('slackwater_tier_cpu_quota_cores{node=~"$node", tier="besteffort"} < Inf',
              "quota {{node}}"),
        Query('slackwater_tier_cpu_usage_cores{node=~"$node", tier="besteffort"}', "used {{node}}"),
    ), width=12),
    Panel("Throttled by the tier's own quota", "Share of the time, all CPUs together.", (
        Query('slackwater_tier_cpu_throttled_ratio{node=~"$node"}', "{{tier}} {{node}}"),
    ), unit="percentunit"),
    Panel("Waiting for a CPU (PSI)",
          "Share of the time in which some task waited. With agent.reading: everything.", (
              Query('rate(slackwater_node_cpu_pressure_seconds_total'
                    f'{{node=~"$node", line="some"}}{_RATE})', "{{node}}"),
          ), unit="percentunit"),
    Panel("Busiest pods", "In cores. With agent.reading: everything.", (
        Query('topk(10, slackwater_pod_cpu_usage_cores{node=~"$node"})', "{{namespace}}/{{pod}}"),
    )),
))  # fmt: skip
_POLICIES = Row("Policies", (
    Panel("What policies do", "Ticks per second in which a policy acted, or held for lack of an "
          "input, or released after holding for too long.", (
              Query('sum by (policy, course) (rate(slackwater_policy_ticks_total'
                    f'{{node=~"$node"}}{_RATE}))', "{{policy}} {{course}}"),
          )),
    Panel("Policies that are on", "On how many of the chosen nodes.", (
        Query('sum by (policy) (slackwater_policy_enabled{node=~"$node"})', "{{policy}}"),
    ), "bargauge"),
    Panel("Values changed", "Attempts per second, by how they ended.", (
        Query('sum by (knob, level, result) (rate(slackwater_knob_changes_total'
              f'{{node=~"$node"}}{_RATE}))', "{{level}} {{knob}} {{result}}"),
    )),
    Panel("Values repaired", "What another program had changed and the agent wrote again, per "
          "second. The kubelet resets its tiers once a minute.", (
              Query('sum by (knob, level) (rate(slackwater_knob_repairs_total'
                    f'{{node=~"$node"}}{_RATE}))', "{{level}} {{knob}}"),
          ), width=12),
    Panel("CPUs", "Of CPU sets: held by one container alone, shared, reserved, all others.", (
        Query('sum by (use) (slackwater_cpus{node=~"$node"})', "{{use}}"),
        Query('sum(slackwater_pods_refused_cpus{node=~"$node"})', "pods that get none"),
    ), width=12),
))  # fmt: skip
_RULES = Row("Rules (NodeQOS)", (
    Panel("Seen, in percent of the limit", "Above 100 a rule is broken.", (
        Query('100 * slackwater_rule_seen{node=~"$node"} / slackwater_rule_limit{node=~"$node"}',
              "{{object}}/{{rule}} {{node}}"),
    ), unit="percent"),
    Panel("State", "1 for the state that a rule is in.", (
        Query('sum by (object, rule, state) (slackwater_rule_state{node=~"$node", state!="quiet"})',
              "{{object}}/{{rule}} {{state}}"),
    )),
    Panel("Ticks without the metric", "Per second: the rule protects nobody then.", (
        Query(f'rate(slackwater_rule_gaps_total{{node=~"$node"}}{_RATE})',
              "{{object}}/{{rule}} {{node}}"),
    )),
    Panel("Pods throttled or demoted", "By rules, now.", (
        Query('slackwater_rule_throttled_pods{node=~"$node"}', "{{node}}"),
    )),
    Panel("Asked of the API server", "Evictions, taints, conditions, resources: per second, by how "
          "it went.", (
              Query('sum by (kind, result) (rate(slackwater_commands_total'
                    f'{{node=~"$node"}}{_RATE}))', "{{kind}} {{result}}"),
          )),
    Panel("Nothing new is scheduled here", "1 while rules stop scheduling to the node.", (
        Query('slackwater_node_tainted{node=~"$node"}', "{{node}}"),
    )),
))  # fmt: skip
_AGENT = Row("The agent itself", (
    Panel("Duration of a tick", "From reading the node to the last write.", (
        Query('histogram_quantile(0.5, sum by (le) (rate(slackwater_tick_duration_seconds_bucket'
              f'{{node=~"$node"}}{_RATE})))', "median"),
        Query('histogram_quantile(0.99, sum by (le) (rate(slackwater_tick_duration_seconds_bucket'
              f'{{node=~"$node"}}{_RATE})))', "99 %"),
    ), unit="s"),
    Panel("Ticks", "Per second; early ones are woken by pressure.", (
        Query(f'sum by (kind) (rate(slackwater_ticks_total{{node=~"$node"}}{_RATE}))', "{{kind}}"),
        Query(f'sum(rate(slackwater_blind_rounds_total{{node=~"$node"}}{_RATE}))', "blind"),
    )),
    Panel("Age of what the API server said", "By kind of object; the oldest of the nodes.", (
        Query('max by (source) (slackwater_source_age_seconds{node=~"$node"})', "{{source}}"),
    ), unit="s"),
    Panel("Versions", "Agents, by version.", (
        Query('count by (version) (slackwater_build_info{node=~"$node"} '
              "and on (instance) slackwater_node_cpu_usage_cores)", "{{version}}"),
    ), "bargauge", width=8, height=6),
    Panel("Container starts intercepted", "1 where the runtime asks before each start (NRI).", (
        Query('slackwater_container_starts_intercepted{node=~"$node"}', "{{node}}"),
    ), width=8, height=6),
    Panel("Blind, or paused by hand", "1 while it is.", (
        Query('slackwater_blind{node=~"$node"}', "blind {{node}}"),
        Query('slackwater_paused{node=~"$node"}', "paused {{node}}"),
    ), width=8, height=6),
))  # fmt: skip

_CLUSTER_NOW = Row("Now", (
    _stat("Nodes with an agent", "Whose agent was scraped and reads the node.",
          "count(slackwater_node_cpu_usage_cores)"),
    _stat("CPU in use", "Of what these nodes offer to pods.",
          "sum(slackwater_node_cpu_usage_cores) / sum(slackwater_node_cpu_allocatable_cores)",
          "percentunit"),
    _stat("Used by best effort", "In cores.",
          'sum(slackwater_tier_cpu_usage_cores{tier="besteffort"})'),
    _stat("Idle CPU sold", "In cores: offered to pods beyond what is allocatable.",
          f"sum(slackwater_oversold_sold{{{_CPU_OFFERS}}})"),
    _stat("Rules triggered", "On all nodes, in Preview too.",
          'sum(slackwater_rule_state{state="triggered"})'),
    _stat("Nodes with problems", "Configuration problems, blind, or without a tick for a minute.",
          "count((slackwater_configuration_problems > 0) or (slackwater_blind > 0) "
          "or (slackwater_last_tick_age_seconds > 60)) or vector(0)"),
))  # fmt: skip
_CLUSTER_CPU = Row("CPU", (
    Panel("CPU of all nodes", "In cores.", (
        Query("sum(slackwater_node_cpu_allocatable_cores)", "allocatable"),
        Query("sum(slackwater_node_cpu_usage_cores)", "used"),
        Query("sum by (tier) (slackwater_tier_cpu_usage_cores)", "used by {{tier}}"),
    ), width=12),
    Panel("Busiest nodes", "CPU in use, of allocatable.", (
        Query("topk(10, slackwater_node_cpu_usage_cores / slackwater_node_cpu_allocatable_cores)",
              "{{node}}"),
    ), unit="percentunit", width=12),
    Panel("Idle CPU: sold and asked for", "In cores; normalized ones where CPU is normalized.", (
        Query(f"sum by (resource) (slackwater_oversold_sold{{{_CPU_OFFERS}}})", "sold"),
        Query(f"sum by (resource) (slackwater_oversold_allocated{{{_CPU_OFFERS}}})", "asked for"),
    )),
    Panel("Most throttled best effort", "Share of the time, all CPUs together.", (
        Query('topk(10, slackwater_tier_cpu_throttled_ratio{tier="besteffort"})', "{{node}}"),
    ), unit="percentunit"),
    Panel("Asked of the API server", "Evictions, taints and so on: per second, by how it went.", (
        Query(f"sum by (kind, result) (rate(slackwater_commands_total{_RATE}))",
              "{{kind}} {{result}}"),
    )),
))  # fmt: skip
_NORMALIZATION = Row("CPU normalization", (
    Panel("Pods closest to their request",
          "CPU time / (request / ratio): of what the pod asked for, in this machine's CPUs. "
          "Needs the chart's recording rules (prometheusRule.enabled), cAdvisor and "
          "kube-state-metrics.", (
              Query("topk(10, slackwater:pod_cpu_real_utilisation:ratio_rate5m)",
                    "{{namespace}}/{{pod}}"),
          ), unit="percentunit", width=12),
    Panel("Real utilisation, by namespace", "The same of all pods of a namespace.", (
        Query("slackwater:namespace_cpu_real_utilisation:ratio_rate5m", "{{namespace}}"),
    ), unit="percentunit", width=12),
    Panel("Ratio", "What a CPU of the node is worth.", (
        Query("max by (node) (slackwater_cpu_normalization_ratio)", "{{node}}"),
    )),
    Panel("Allocatable: raw and amplified", "In CPUs, of nodes with a ratio.", (
        Query("max by (node) (slackwater_manager_node_raw_allocatable_cores)", "{{node}} raw"),
        Query("max by (node) (slackwater_manager_node_allocatable_cores)", "{{node}} as shown"),
    )),
    Panel("Quotas after the division", "In this machine's CPUs, by pod.", (
        Query("topk(10, slackwater_pod_normalized_cpu_quota_cores)", "{{namespace}}/{{pod}}"),
        Query("sum(slackwater_normalized_pods)", "pods with one"),
    )),
))  # fmt: skip
_MANAGER = Row("The manager", (
    _stat("Leaders", "Should be 1.", "sum(slackwater_manager_leader)"),
    _stat("Nodes that report", "As the leader sees them.",
          "max(slackwater_manager_nodes_reporting)"),
    _stat("Invalid objects", "`kubectl get nodeqos` says what is wrong.",
          "sum(max by (kind) (slackwater_manager_invalid_objects))"),
    _stat("Problems", "Such as a kind that cannot be watched.", "max(slackwater_manager_problems)"),
    _stat("Last round", "How long ago; the oldest replica's.",
          "max(slackwater_manager_last_round_age_seconds)", "s"),
    _stat("Webhook's certificate", "Until it expires; it is replaced 30 days before.",
          "min(slackwater_webhook_certificate_expiry_timestamp_seconds) - time()", "s"),
    Panel("Rounds", "Per second, by replica.", (
        Query(f"rate(slackwater_manager_rounds_total{_RATE})", "{{pod}}"),
    )),
    Panel("Statuses written", "Per second, by how it ended.", (
        Query(f"sum by (kind, result) (rate(slackwater_manager_status_writes_total{_RATE}))",
              "{{kind}} {{result}}"),
    )),
    Panel("Reviews of the node webhook", "Per second; held and refused change nothing.", (
        Query(f"sum by (result) (rate(slackwater_webhook_reviews_total{_RATE}))", "{{result}}"),
    )),
))  # fmt: skip

_WORKLOADS = 'namespace=~"$namespace", workload=~"$workload"'
_REBALANCER = Row("Rotations", (
    _stat("Last round", "How long ago it ended.",
          "time() - max(rebalancer_last_run_timestamp_seconds)", "s", 6),
    _stat("Rotations in the last day", "Of all workloads.",
          'sum(increase(rebalancer_rotation_decisions_total{reason="rotated"}[1d]))', width=6),
    _stat("Pods removed in the last day", "The most and the least busy ones.",
          "sum(increase(rebalancer_pods_deleted_total[1d]))", width=6),
    _stat("Rounds with an error, last day",
          "One or more workloads could not be assessed or rotated.",
          'sum(increase(rebalancer_executions_total{status="error"}[1d]))', width=6),
    Panel("Hot pods: average now, after a rotation, and the bound", "In cores.", (
        Query(f"max by (namespace, workload) (rebalancer_current_cpu_average{{{_WORKLOADS}}})",
              "now {{namespace}}/{{workload}}"),
        Query(f"max by (namespace, workload) (rebalancer_predicted_cpu_average{{{_WORKLOADS}}})",
              "expected {{namespace}}/{{workload}}"),
        Query(f"max by (namespace, workload) (rebalancer_safety_threshold_current{{{_WORKLOADS}}})",
              "bound {{namespace}}/{{workload}}"),
    ), width=12),
    Panel("What a rotation would bring", "Percent of the hot pods' average.", (
        Query(f"max by (namespace, workload) (rebalancer_improvement_calculated{{{_WORKLOADS}}})",
              "{{namespace}}/{{workload}}"),
    ), unit="percent", width=12),
    Panel("What the last rotation was expected to bring",
          "Percent. What it brought, once its window has passed, is "
          "rebalancer_improvement_realised.", (
              Query("max by (namespace, workload) "
                    f"(rebalancer_improvement_expected{{{_WORKLOADS}}})",
                    "{{namespace}}/{{workload}}"),
          ), unit="percent"),
    Panel("Pods by group", "top and bottom would go; the others stay.", (
        Query(f"sum by (group) (rebalancer_pods{{{_WORKLOADS}}})", "{{group}}"),
    ), stacked=True),
    Panel("Spread of the load", "Standard deviation of the pods' usage, in cores.", (
        Query("sqrt(max by (namespace, workload) "
              f"(rebalancer_load_variance_current{{{_WORKLOADS}}}))", "{{namespace}}/{{workload}}"),
    )),
))  # fmt: skip
_DECISIONS = Row("Rounds", (
    Panel("Decisions", "Per second: rotated, or why not.", (
        Query(f"sum by (reason) (rate(rebalancer_rotation_decisions_total{_RATE})) > 0",
              "{{reason}}"),
    )),
    Panel("Failed queries and writes", "Per second, by whom they were sent to.", (
        Query(f"sum by (component) (rate(rebalancer_api_errors_total{_RATE}))", "{{component}}"),
    )),
    Panel("Duration of a round", "Until the last new pod was Ready; 90 % are shorter.", (
        Query("histogram_quantile(0.9, sum by (le) "
              f"(rate(rebalancer_execution_duration_seconds_bucket{_RATE})))", "90 %"),
    ), unit="s"),
))  # fmt: skip

_FORECASTS = Row("Forecasts of the manager", (
    _stat("Metrics that are predicted", "Of TimeSeriesPredictions.",
          "sum(max by (resource, estimator) (slackwater_manager_predictions))", width=6),
    _stat("Predictions that are not ready", "`kubectl describe tsp` says why.",
          "max(slackwater_manager_predictions_not_ready)", width=6),
    _stat("Queries that failed, last hour", "To Prometheus, for histories.",
          'sum(increase(slackwater_manager_history_queries_total{result="failed"}[1h]))', width=6),
    _stat("The template cannot be read", "1 while it cannot; the last good one counts.",
          "max(slackwater_manager_template_invalid)", width=6),
    Panel("Predicted, by estimator", "How many metrics.", (
        Query("max by (resource, estimator) (slackwater_manager_predictions)",
              "{{resource}} {{estimator}}"),
    ), width=12),
    Panel("Off by, on the last day", "As a share of the real value, the mean over all predictions. "
          "A template's own margin counts.", (
              Query("max by (resource, estimator) (slackwater_manager_prediction_error_ratio)",
                    "{{resource}} {{estimator}}"),
          ), unit="percentunit", width=12),
))  # fmt: skip
_SOLD = Row("Idle CPU and memory sold", (
    Panel("CPU: predicted and used", "In physical cores, of what cannot be sold.", (
        Query(f'slackwater_oversold_predicted{{node=~"$node", {_CPU_OFFERS}}}',
              "predicted {{node}}"),
        Query(f'slackwater_oversold_used{{node=~"$node", {_CPU_OFFERS}}}', "used {{node}}"),
    ), width=12),
    Panel("CPU: sold and asked for", "In cores; normalized ones where CPU is normalized.", (
        Query(f'slackwater_oversold_sold{{node=~"$node", {_CPU_OFFERS}}}', "sold {{node}}"),
        Query(f'slackwater_oversold_allocated{{node=~"$node", {_CPU_OFFERS}}}',
              "asked for {{node}}"),
    ), width=12),
    Panel("Forecast exceeded", "Share of the ticks in which more was used than the tick before had "
          "predicted.", (
              Query("sum by (node, resource) (rate(slackwater_oversold_exceeded_total"
                    f'{{node=~"$node"}}{_RATE})) / on (node) group_left () sum by (node) '
                    f'(rate(slackwater_ticks_total{{node=~"$node"}}{_RATE}))',
                    "{{resource}} {{node}}"),
          ), unit="percentunit", width=12),
    Panel("Memory: sold and used", "In bytes.", (
        Query('slackwater_oversold_sold{node=~"$node", resource=~".*memory"}', "sold {{node}}"),
        Query('slackwater_oversold_used{node=~"$node", resource=~".*memory"}', "used {{node}}"),
    ), unit="bytes", width=12),
))  # fmt: skip

DASHBOARDS: tuple[Dashboard, ...] = (
    Dashboard(
        "cluster", "Slackwater / Cluster", "All nodes at a glance, and the manager.", (),
        (_CLUSTER_NOW, _CLUSTER_CPU, _NORMALIZATION, _MANAGER),
    ),
    Dashboard(
        "node", "Slackwater / Node", "What the agents of the chosen nodes see and do.", (_NODE,),
        (_NODE_NOW, _NODE_CPU, _POLICIES, _RULES, _AGENT),
    ),
    Dashboard(
        "rebalancer", "Slackwater / Rebalancer",
        "Rotations of the resident rebalancer, or of runs that push to a Pushgateway.",
        (
            Variable("namespace", "rebalancer_safety_threshold_current", "namespace"),
            Variable("workload", "rebalancer_safety_threshold_current", "workload"),
        ),
        (_REBALANCER, _DECISIONS),
    ),
    Dashboard(
        "forecast", "Slackwater / Forecast", "What is predicted, how good it was, what is sold.",
        (_NODE,), (_FORECASTS, _SOLD),
    ),
)  # fmt: skip
