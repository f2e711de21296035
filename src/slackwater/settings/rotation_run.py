"""Settings of a whole run: where the numbers come from, how pods go, and how many at most.

Owns their bounds and their prose. The defaults are the Structs' in settings.rotation. Refuses
secrets: a password or a token is named by its file.
"""

from slackwater.settings import rotation_shapes as shapes
from slackwater.settings.bound import Bound, Unit
from slackwater.settings.choice import Choice, Flag
from slackwater.settings.rebalancer import (
    LogLevel,
    Removal,
    RequestSource,
    RunSettings,
    UsageSource,
)
from slackwater.settings.rotation_entry import Entry, Scope
from slackwater.settings.wording import Pairs, Wording

_MILLISECOND = 1_000
_SECOND = 1_000_000
_HOUR = 3_600 * _SECOND
_RUN = RunSettings()
_PROMETHEUS = _RUN.prometheus
_LABELS = _PROMETHEUS.labels


def _in_prometheus(setting: Bound | Wording | Pairs, *path: str) -> Entry:
    return Entry(setting, ("prometheus", *path), Scope.RUN)


PROMETHEUS = (
    _in_prometheus(
        Wording(
            "prometheus.endpoint", _PROMETHEUS.endpoint, shapes.URL,
            "Prometheus, VictoriaMetrics, or anything that answers as they do.",
        ),
        "endpoint",
    ),
    _in_prometheus(
        Bound(
            "prometheus.timeout", _PROMETHEUS.timeout, _MILLISECOND, _HOUR, Unit.DURATION,
            "How long one query may take.",
        ),
        "timeout",
    ),
    _in_prometheus(
        Bound(
            "prometheus.retries", _PROMETHEUS.retries, 0, 10, Unit.COUNT,
            "How often a query is asked again when the server could not be reached or was busy.",
        ),
        "retries",
    ),
    _in_prometheus(
        Pairs(
            "prometheus.headers", shapes.HEADER, shapes.HEADER_VALUE,
            "HTTP headers for each query. Secrets belong in a file: see tokenFile.",
        ),
        "headers",
    ),
    _in_prometheus(
        Wording(
            "prometheus.tenant", _PROMETHEUS.tenant, shapes.PLAIN,
            "Whose metrics: the header X-Scope-OrgID.",
        ),
        "tenant",
    ),
    _in_prometheus(
        Wording(
            "prometheus.tokenFile", _PROMETHEUS.token_file, shapes.FILE,
            "A file with a bearer token. Read at each query, so that a new token is found.",
        ),
        "token_file",
    ),
    _in_prometheus(
        Wording(
            "prometheus.username", _PROMETHEUS.username, shapes.PLAIN,
            "For HTTP's basic authentication.",
        ),
        "username",
    ),
    _in_prometheus(
        Wording(
            "prometheus.passwordFile", _PROMETHEUS.password_file, shapes.FILE,
            "A file with the user's password.",
        ),
        "password_file",
    ),
    _in_prometheus(
        Wording(
            "prometheus.caFile", _PROMETHEUS.ca_file, shapes.FILE,
            "Certificates that the server's is checked against, in place of the machine's own.",
        ),
        "ca_file",
    ),
    _in_prometheus(
        Wording(
            "prometheus.certificateFile", _PROMETHEUS.certificate_file, shapes.FILE,
            "A client certificate; needs keyFile.",
        ),
        "certificate_file",
    ),
    _in_prometheus(
        Wording(
            "prometheus.keyFile", _PROMETHEUS.key_file, shapes.FILE,
            "The client certificate's key.",
        ),
        "key_file",
    ),
    _in_prometheus(
        Wording(
            "prometheus.podLabel", _LABELS.pod, shapes.LABEL,
            "What the scrape configuration calls the label of the pod.",
        ),
        "labels", "pod",
    ),
    _in_prometheus(
        Wording(
            "prometheus.containerLabel", _LABELS.container, shapes.LABEL,
            "What it calls the label of the container.",
        ),
        "labels", "container",
    ),
    _in_prometheus(
        Wording(
            "prometheus.namespaceLabel", _LABELS.namespace, shapes.LABEL,
            "What it calls the label of the namespace.",
        ),
        "labels", "namespace",
    ),
    _in_prometheus(
        Pairs(
            "prometheus.matchers", shapes.MATCHER, shapes.MATCHER_VALUE,
            "Labels and values that the series must have, where one Prometheus holds several "
            "clusters: cluster=prod-eu. Added to every query but kafka.lagQuery.",
            most=20,
        ),
        "labels", "matchers",
    ),
)  # fmt: skip

ACTING = (
    Entry(
        Choice(
            "usageSource", _RUN.usage_source.value, tuple(word.value for word in UsageSource),
            "Who says what pods use. metrics-api is metrics.k8s.io, which needs no Prometheus.",
        ),
        ("usage_source",), Scope.RUN, UsageSource,
    ),
    Entry(
        Choice(
            "requestSource", _RUN.request_source.value, tuple(word.value for word in RequestSource),
            "Who says what pods ask for. auto is kube-state-metrics where it has the pod, else the "
            "pod's own spec.",
        ),
        ("request_source",), Scope.RUN, RequestSource,
    ),
    Entry(
        Choice(
            "removal", _RUN.removal.value, tuple(word.value for word in Removal),
            "How a pod goes. Disruption budgets hold for evict; delete ignores them, as the "
            "original did.",
        ),
        ("removal",), Scope.RUN, Removal,
    ),
    Entry(
        Bound(
            "gracePeriodSeconds", 30, 1, 86_400, Unit.COUNT,
            "How long a pod may take to end. The original said 30, which cuts longer drains.",
        ),
        ("grace",), Scope.RUN, otherwise="each pod's own",
    ),
    Entry(
        Bound(
            "readyTimeout", _RUN.ready_timeout, _SECOND, _HOUR, Unit.DURATION,
            "How long to wait for a batch's replacements to be Ready. Then the next batch is left.",
        ),
        ("ready_timeout",), Scope.RUN,
    ),
    Entry(
        Bound(
            "caps.run", _RUN.caps.run, 0, None, Unit.COUNT,
            "The most pods that go in one run, of all workloads. 0 is no cap.",
        ),
        ("caps", "run"), Scope.RUN,
    ),
    Entry(
        Bound(
            "caps.node", _RUN.caps.node, 0, None, Unit.COUNT,
            "The most pods that go from one node in one run. 0 is no cap.",
        ),
        ("caps", "node"), Scope.RUN,
    ),
    Entry(
        Bound(
            "caps.namespace", _RUN.caps.namespace, 0, None, Unit.COUNT,
            "The most pods that go from one namespace in one run. 0 is no cap.",
        ),
        ("caps", "namespace"), Scope.RUN,
    ),
    Entry(
        Flag(
            "dryRun", _RUN.dry_run,
            "Decide and tell, but change nothing.",
        ),
        ("dry_run",), Scope.RUN,
    ),
    Entry(
        Wording(
            "push", _RUN.push, shapes.URL_OR_NONE,
            "Where one shot's metrics are pushed to, since nobody can scrape it.",
        ),
        ("push",), Scope.RUN,
    ),
    Entry(
        Bound(
            "interval", _RUN.interval, 10 * _SECOND, 24 * _HOUR, Unit.DURATION,
            "How often the resident loop looks.",
        ),
        ("interval",), Scope.RUN,
    ),
    Entry(
        Choice(
            "logLevel", _RUN.log_level.value, tuple(word.value for word in LogLevel),
            "From which level on lines are printed. debug shows no more than info.",
        ),
        ("log_level",), Scope.RUN, LogLevel,
    ),
)  # fmt: skip

RUN_ENTRIES: tuple[Entry, ...] = (*PROMETHEUS, *ACTING)
