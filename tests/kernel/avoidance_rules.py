"""A rule of QoS ensurance about the node's own CPU usage, for an agent on real cgroups: above 1 m
while anything runs, never above a million CPUs."""

from slackwater.model.decision import RuleReport, RuleState
from tests.kernel.hand import until
from tests.kernel.in_process import InProcess

ALWAYS, NEVER = 1, 1_000_000_000
CRANE = "ensurance.crane.io/v1alpha1"


def put_rule(
    agent: InProcess,
    value: int,
    step: int = 10,
    least: int = 10,
    strategy: str = "None",
    *,
    with_action: bool = True,
) -> None:
    cpu = {"minCPURatio": least, "stepCPURatio": step}
    action = {
        "apiVersion": CRANE,
        "kind": "AvoidanceAction",
        "metadata": {"name": "throttle"},
        "spec": {"coolDownSeconds": 1, "throttle": {"cpuThrottle": cpu}},
    }
    rule = {
        "name": "cpu-usage",
        "avoidanceThreshold": 1,
        "restoreThreshold": 1,
        "actionName": "throttle",
        "strategy": strategy,
        "metricRule": {"name": "cpu_total_usage", "value": value},
    }
    policy = {
        "apiVersion": CRANE,
        "kind": "NodeQOSEnsurancePolicy",
        "metadata": {"name": "waterline2"},
        "spec": {
            "nodeQualityProbe": {"nodeLocalGet": {"localCacheTTLSeconds": 60}},
            "objectiveEnsurances": [rule],
        },
    }
    agent.put("rules", *([action] if with_action else []), policy)


def report(agent: InProcess) -> RuleReport:
    [found] = [rule for told in agent.once().story.told for rule in told.rules]
    return found


def trigger(agent: InProcess) -> None:
    """Until the first round whose usage is above the rule's value."""
    until(lambda: report(agent).state is RuleState.TRIGGERED, what=lambda: "the rule's trigger")


def restore(agent: InProcess) -> None:
    until(lambda: report(agent).state is RuleState.QUIET, what=lambda: "the rule's end")
