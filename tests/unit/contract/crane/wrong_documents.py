"""Spoilt objects: every field of every kind once with each value that its schema rules out, and
a table of what the rules between fields rule out."""

import functools
from collections.abc import Iterator
from typing import Any

from slackwater.contract import resources
from slackwater.contract.crd import DEFINITIONS, manifest
from tests.unit.contract.crane.documents import ABSENT, METRIC_SOURCES, RULE, WHOLE, Path, Wrong

Schema = dict[str, Any]

#: What no field of that type takes.
_OTHER_TYPE: dict[str, Any] = {
    "integer": "many",
    "string": 7,
    "boolean": "yes",
    "array": "none",
    "object": "none",
}
#: More elements than any list of ours may have; longer ones are not worth their time.
_MOST_ELEMENTS = 300
_LONGEST_TEXT = 5000


@functools.cache
def schemas() -> dict[resources.Resource, Schema]:
    """The stored version's schema of each kind."""
    return {
        each.kind: manifest(each)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for each in DEFINITIONS
    }


def wrong_fields() -> Iterator[Wrong]:
    """Every field, with a value of another type, beyond each bound, and absent if it must be."""
    for kind, schema in schemas().items():
        for path, below in fields(schema, WHOLE[kind], ()):
            for value in _ruled_out(below, _at(WHOLE[kind], path)):
                yield Wrong(kind, path, value)


def fields(schema: Schema, value: Any, path: Path) -> Iterator[tuple[Path, Schema]]:
    """Every place of a document and its schema, the first element of each list for all of it."""
    if isinstance(value, dict):
        known = schema.get("properties", {})
        for key, each in value.items():
            below = known.get(key, schema.get("additionalProperties"))
            if path or key not in ("apiVersion", "kind", "metadata"):
                wanted = {"wanted": key in schema.get("required", ())}
                yield (*path, key), {**below, **wanted}
                yield from fields(below, each, (*path, key))
    elif isinstance(value, list) and value:
        yield (*path, 0), {**schema["items"], "wanted": False}
        yield from fields(schema["items"], value[0], (*path, 0))


def _at(document: Any, path: Path) -> Any:
    for each in path:
        document = document[each]
    return document


def _ruled_out(schema: Schema, value: Any) -> Iterator[Any]:
    if schema["wanted"]:
        yield ABSENT
    if "x-kubernetes-int-or-string" in schema:
        yield from (True, [], "x y")
        return
    yield _OTHER_TYPE[schema["type"]]
    if "enum" in schema:
        yield "Nonsense"
    if "minimum" in schema:
        yield schema["minimum"] - 1
    if "maximum" in schema:
        yield schema["maximum"] + 1
    if schema.get("minLength"):
        yield ""
    if schema.get("maxLength", _LONGEST_TEXT) < _LONGEST_TEXT:
        yield "x" * (schema["maxLength"] + 1)
    if schema.get("minItems"):
        yield []
    if schema.get("maxItems", _MOST_ELEMENTS) < _MOST_ELEMENTS:
        yield value[:1] * (schema["maxItems"] + 1)


_POLICIES = (
    (resources.NODE_QOS, "rules"),
    (resources.NODE_QOS_ENSURANCE_POLICIES, "objectiveEnsurances"),
)
_FULL_PROBE = {"httpGet": {"port": 80}, "nodeLocalGet": {}}
_FIRST = "matchExpressions[0]"
_SCOPES = ("spec", "scopeSelector", "matchExpressions")


def wrong_together() -> Iterator[Wrong]:
    """What only two fields together, or a regex, rule out. Crane's acceptance case 63 is in it."""
    for kind in (resources.AVOIDANCE_ACTIONS, resources.NODE_QOS, resources.POD_QOS):
        yield Wrong(kind, ("metadata", "name"), "aaa.bbb")
        yield Wrong(kind, ("metadata", "name"), "a" * 64)
    for kind, listed in _POLICIES:
        yield from _wrong_rules(kind, listed)
    yield from _wrong_selectors()
    yield from _wrong_scopes()
    yield from _wrong_probes()
    yield from _wrong_predictions()
    yield from _wrong_metrics()


def _wrong_rules(kind: resources.Resource, listed: str) -> Iterator[Wrong]:
    probe = ("spec", "nodeQualityProbe")
    yield Wrong(kind, probe, ABSENT)
    yield Wrong(kind, probe, {"timeoutSeconds": 1}, "nodeQualityProbe")
    yield Wrong(kind, probe, _FULL_PROBE, "nodeQualityProbe")
    yield Wrong(kind, probe, {"httpGet": {"port": "web"}}, "nodeQualityProbe.httpGet.port")
    for seconds in (0, -1):
        yield Wrong(kind, (*probe, "timeoutSeconds"), seconds)
    rule = ("spec", listed, 0)
    for name in ("aaa.bbb", "Cpu", "-a", "a-", "a\n", "a b"):
        yield Wrong(kind, (*rule, "name"), name)
    yield Wrong(kind, (*rule, "actionName"), "no_name")
    count = len(WHOLE[kind]["spec"][listed])
    yield Wrong(kind, ("spec", listed, count), RULE, f"spec.{listed}")
    value = (*rule, "metricRule", "value")
    for each in (0, -1, "-1", "0", "0.0", "80%", "1 k", "1ki", "", 1.5, "1e30", "1E19"):
        yield Wrong(kind, value, each, f"spec.{listed}[0].metricRule")
    for name in ("cpu_usage", "cpu usage", "1x", "a{b}"):
        yield Wrong(kind, (*rule, "metricRule", "name"), name, "metricRule.name")
    yield Wrong(kind, (*rule, "restoredThreshold"), 2)
    selector = (*rule, "metricRule", "selector", "matchExpressions", 0)
    yield Wrong(kind, (*selector, "values"), [], f"selector.{_FIRST}")


def _wrong_selectors() -> Iterator[Wrong]:
    for kind, name in ((resources.NODE_QOS, "selector"), (resources.POD_QOS, "labelSelector")):
        selector = ("spec", name)
        expressions = (*selector, "matchExpressions")
        yield Wrong(kind, (*selector, "matchLabels", "pool"), "a b")
        yield Wrong(kind, (*expressions, 0, "key"), "a b")
        yield Wrong(kind, (*expressions, 0, "values"), ABSENT, f"{name}.{_FIRST}")
        yield Wrong(kind, (*expressions, 0, "values", 1), "-b")
        yield Wrong(kind, (*expressions, 1, "values"), ["a"], f"{name}.matchExpressions[1]")


def _wrong_scopes() -> Iterator[Wrong]:
    where = "spec.scopeSelector.matchExpressions"
    for place, values in (
        (0, ("Best-Effort", "guaranteed")),
        (1, ("low", "1-2-3", "1-", "+1", "1 - 2", "10000000000-2", "5-1", "0--1000")),
        (2, ("Kube", "a.b", "a_b")),
    ):
        for value in values:
            yield Wrong(
                resources.POD_QOS, (*_SCOPES, place, "values", 0), value, f"{where}[{place}].values"
            )


def _wrong_probes() -> Iterator[Wrong]:
    get = ("spec", "podQualityProbe", "httpGet")
    for host in ("a b", "http://a", "a/b", "[::1]"):
        yield Wrong(resources.POD_QOS, (*get, "host"), host)
    for path in ("/a b", "/\u00e4", "/a\nb"):
        yield Wrong(resources.POD_QOS, (*get, "path"), path)
    for name in ("a b", "a:", ""):
        yield Wrong(resources.POD_QOS, (*get, "httpHeaders", 0, "name"), name)


def _wrong_predictions() -> Iterator[Wrong]:
    kind = resources.TIME_SERIES_PREDICTIONS
    metric = ("spec", "predictionMetrics", 0)
    first = WHOLE[kind]["spec"]["predictionMetrics"][0]
    yield Wrong(kind, ("spec", "predictionMetrics", 2), first, "spec.predictionMetrics")
    yield Wrong(kind, (*metric, "expressionQuery"), ABSENT)
    yield Wrong(kind, ("spec", "predictionMetrics", 1, "resourceQuery"), ABSENT)
    yield Wrong(kind, ("spec", "predictionMetrics", 1, "type"), "MetricQuery", "metricQuery")
    label = (*metric, "metricQuery", "labels", 0)
    yield Wrong(kind, (*metric, "metricQuery", "metricName"), "no name")
    yield Wrong(kind, (*label, "key"), "a-b")
    yield Wrong(kind, (*label, "operator"), "==")
    yield Wrong(kind, (*label, "value"), [])
    dsp = (*metric, "algorithm", "dsp")
    for duration in ("3 days", "60", "1h 30m", "-1s"):
        yield Wrong(kind, (*dsp, "historyLength"), duration)
    for number in ("5%", "0,05", "x", ""):
        yield Wrong(kind, (*dsp, "estimators", "maxValue", 0, "marginFraction"), number)


def _wrong_metrics() -> Iterator[Wrong]:
    kind = resources.ENSURANCE_METRICS
    for name in ("queue", "aaa.b-bb", "1-queue", "a-" + "b" * 62):
        yield Wrong(kind, ("metadata", "name"), name)
    source = ("spec", "source")
    yield Wrong(kind, source, {}, "spec.source")
    yield Wrong(kind, (*source, "file"), {"name": "queue.prom"}, "spec.source")
    yield Wrong(kind, (*source, "series"), "queue_length")
    promql = (*source, "promql")
    for url in (
        "prometheus:9090",
        "ftp://a:1",
        "http://user:word@a:1",
        "http://a:1/?x=y",
        "http://",
    ):
        yield Wrong(kind, (*promql, "url"), url)
    for name in ("/etc/passwd", "../token", ".hidden", "a b"):
        yield Wrong(kind, (*promql, "bearerTokenFile"), name)
        yield Wrong(
            kind, (*source,), {"file": {"name": name}, "series": "a"}, "spec.source.file.name"
        )
    for place, each in enumerate(METRIC_SOURCES[:3]):
        without = {key: value for key, value in each.items() if key != "series"}
        yield Wrong(kind, source, without, "spec.source.series")
        odd = {**each, "series": ("a-b", "a b", "1a")[place]}
        yield Wrong(kind, source, odd, "spec.source.series")
    probe = {"kind": "Pod", "name": "workers"}
    yield Wrong(kind, source, {"probe": probe, "series": "a"}, "spec.source.probe.kind")
    named = {"httpGet": {"port": "http"}, "series": "a"}
    yield Wrong(kind, source, named, "spec.source.httpGet.port")
    chosen = {"matchExpressions": [{"key": "a", "operator": "In", "values": []}]}
    where = "spec.source.pressure.selector.matchExpressions[0]"
    yield Wrong(kind, source, {"pressure": {"selector": chosen}}, where)
    yield Wrong(kind, ("spec", "sort", 2), {"by": "ownValue"}, "spec.sort")
    for verb in ("throttle", "evict"):
        yield Wrong(kind, ("spec", f"{verb}able"), False, f"spec.{verb}Quantified")
    for unit in ("none", "memoryUsage"):
        yield Wrong(kind, ("spec", "release"), unit, "spec.throttleQuantified")


ALL_WRONG = (*wrong_fields(), *wrong_together())
