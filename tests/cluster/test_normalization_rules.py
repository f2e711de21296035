"""The chart's recording rules for real utilisation, as promtool and a real Prometheus take them."""

import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import ProxyHandler, build_opener

import pytest
import yaml

from tests.cluster.prometheus_bed import Backfill, gauge, prometheus_with, request, usage

TEMPLATE = Path(__file__).parents[2] / "charts/slackwater/templates/prometheusrule.yaml"
POD = "slackwater:pod_cpu_real_utilisation:ratio_rate5m"
CONTAINER = "slackwater:container_cpu_real_utilisation:ratio_rate5m"
NAMESPACE = "slackwater:namespace_cpu_real_utilisation:ratio_rate5m"
RATIO = "slackwater_cpu_normalization_ratio"


def rules(interval: str) -> str:
    """The groups of the template, as a rule file has them. Only the interval is a value."""
    lines = TEMPLATE.read_text().splitlines()
    spec = "\n".join(lines[lines.index("spec:") :])
    plain = re.sub(r"\{\{ \.Values\.prometheusRule\.interval \}\}", interval, spec)
    text = "\n".join(line for line in plain.splitlines() if not line.startswith("{{"))
    assert "{{" not in text
    groups: dict[str, Any] = yaml.safe_load(text)["spec"]
    return yaml.safe_dump(groups)


def on(node: str, more: dict[str, str] | None = None) -> dict[str, str]:
    return {"node": node, **(more or {})}


def cluster(now: float) -> list[Backfill]:
    """Of three pods with a request of 2: one uses a CPU on a node of ratio 2, one a CPU on a node
    of ratio 1, and one a CPU where there is no agent. A fourth has no request."""
    side = {"container": "side"}
    return [
        gauge(RATIO, {"node": "fast", "instance": "a"}, 2.0, now=now),
        gauge(RATIO, {"node": "slow", "instance": "b"}, 1.0, now=now),
        usage("shop", "on-fast", 1.0, now=now),
        usage("shop", "on-fast", 0.2, now=now, container="side"),
        usage("shop", "on-slow", 1.0, now=now),
        usage("shop", "nowhere", 1.0, now=now),
        usage("shop", "unasked", 1.0, now=now),
        # The pod as a whole, and its pause container, count once.
        usage("shop", "on-fast", 1.2, now=now, container=""),
        usage("shop", "on-fast", 0.1, now=now, container="POD"),
        request("shop", "on-fast", 2.0, now=now, more=on("fast")),
        request("shop", "on-fast", 2.0, now=now, container="side", more=on("fast", side)),
        request("shop", "on-slow", 2.0, now=now, more=on("slow")),
        request("shop", "nowhere", 2.0, now=now, more=on("bare")),
        request("shop", "pending", 2.0, now=now, more=on("")),
    ]


def ask(endpoint: str, query: str) -> dict[tuple[str, str], float]:
    """By pod and container."""
    direct = build_opener(ProxyHandler({}))
    with direct.open(
        f"{endpoint}/api/v1/query?{urlencode({'query': query})}", timeout=30
    ) as answer:
        found = json.load(answer)["data"]["result"]
    return {
        (each["metric"].get("pod", ""), each["metric"].get("container", "")): float(
            each["value"][1]
        )
        for each in found
    }


def test_promtool_takes_the_rules(tmp_path: Path) -> None:
    file = tmp_path / "rules.yml"
    file.write_text(rules("30s"))
    done = subprocess.run(
        ["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS: 6 rules found" in done.stdout


def test_promtool_records_the_whole_chain(tmp_path: Path) -> None:
    """Of a request of 2, one CPU is everything at a ratio of 2, and half of it at 1."""
    (tmp_path / "rules.yml").write_text(rules("1m"))
    series = {f'{RATIO}{{node="fast"}}': "2x30", f'{RATIO}{{node="slow"}}': "1x30"}
    for pod, node in (("a", "fast"), ("b", "slow"), ("c", "bare")):
        labels = f'namespace="shop",pod="{pod}",container="app"'
        series[f"container_cpu_usage_seconds_total{{{labels}}}"] = "0+60x30"
        wanted = f'{{{labels},node="{node}",resource="cpu"}}'
        series[f"kube_pod_container_resource_requests{wanted}"] = "2x30"
    expected = [
        {"labels": f'{POD}{{namespace="shop",pod="{pod}"}}', "value": value}
        for pod, value in (("a", 1), ("b", 0.5), ("c", 0.5))
    ]
    case = {
        "interval": "1m",
        "input_series": [{"series": name, "values": each} for name, each in series.items()],
        "promql_expr_test": [{"expr": POD, "eval_time": "20m", "exp_samples": expected}],
    }
    tests = tmp_path / "tests.yml"
    tests.write_text(yaml.safe_dump({"rule_files": ["rules.yml"], "tests": [case]}))
    done = subprocess.run(
        ["promtool", "test", "rules", str(tests)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def expanded(name: str) -> str:
    """A rule's expression with those that it uses in the place of their names: what is recorded
    now would be older than the series of the bed, and Prometheus refuses that."""
    (group,) = yaml.safe_load(rules("1m"))["groups"]
    known = {each["record"]: each["expr"] for each in group["rules"]}
    return re.sub(r"slackwater:[a-z0-9_:]+", lambda found: f"({expanded(found[0])})", known[name])


def test_a_real_prometheus_gives_real_utilisation(tmp_path: Path) -> None:
    with prometheus_with(tmp_path, cluster(time.time())) as bed:
        pods = ask(bed.endpoint, expanded(POD))
        assert pods == {
            ("on-fast", ""): pytest.approx(1.2 / 2.0, rel=0.02),
            ("on-slow", ""): pytest.approx(0.5, rel=0.02),
            ("nowhere", ""): pytest.approx(0.5, rel=0.02),
        }
        containers = ask(bed.endpoint, expanded(CONTAINER))
        assert containers[("on-fast", "app")] == pytest.approx(1.0, rel=0.02)
        assert containers[("on-fast", "side")] == pytest.approx(0.2, rel=0.02)
        assert len(containers) == 4
        (whole,) = ask(bed.endpoint, expanded(NAMESPACE)).values()
        assert whole == pytest.approx(3.2 / 6.0, rel=0.02)
        # The page's panels.
        topmost, plain = re.findall(r"```promql\n(.*?)```", _page(), re.DOTALL)
        panel = topmost.replace("$namespace", ".*")
        panel = panel.replace(f'{POD}{{namespace=~".*"}}', f"({expanded(POD)})")
        assert ask(bed.endpoint, panel)[("on-fast", "")] == pytest.approx(60.0, rel=0.02)
        # Without recording rules only nodes with an agent count.
        assert ask(bed.endpoint, plain).keys() == {("on-fast", ""), ("on-slow", "")}


def _page() -> str:
    return (TEMPLATE.parents[3] / "docs/normalization.md").read_text()
