"""`slackwater forecast backtest`: series in; table, JSON and picture out; what is refused."""

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from click.testing import CliRunner, Result

from slackwater.cli.main import slackwater
from tests.unit.http.prometheus_world import clear_proxies
from tests.unit.kube.byte_server import Request, Wire, serving

SEED_TEMPLATE = """\
predictionMetrics:
- algorithm:
    algorithmType: dsp
    dsp:
      estimators:
        fft:
        - highFrequencyThreshold: "0.05"
          lowAmplitudeThreshold: "1.0"
          marginFraction: "0.2"
          maxNumOfSpectrumItems: 20
          minNumOfSpectrumItems: 10
      historyLength: 3d
      sampleInterval: 60s
  resourceIdentifier: cpu
  type: ExpressionQuery
  expressionQuery:
    expression: up
predictionWindowSeconds: 3600
"""
ESTIMATORS = ["adaptive", "last-day", "percentile", "n-sigma", "max-of-both"]


def backtest(*arguments: str) -> Result:
    return CliRunner().invoke(slackwater, ["forecast", "backtest", *arguments])


def value_at(minutes: int) -> float:
    return 4 + 2 * math.sin(2 * math.pi * minutes / 1440)


@pytest.fixture
def daily(tmp_path: Path) -> Callable[..., str]:
    def write(name: str = "node.csv", days: float = 3.5, header: str = "ts,value") -> str:
        step = 5
        rows = (
            f"{1_700_000_000 + 60 * at},{value_at(at):.4f}"
            for at in range(0, round(days * 1440), step)
        )
        path = tmp_path / name
        path.write_text("\n".join([header, *rows]) + "\n")
        return str(path)

    return write


def refused(tmp_path: Path, content: str | bytes, *arguments: str) -> str:
    path = tmp_path / "bad.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    done = backtest(str(path), *arguments)
    assert done.exit_code == 2
    assert done.stderr.startswith("slackwater: ")
    assert done.stderr.count("\n") == 1
    return done.stderr.replace(f"{tmp_path}/", "")


def test_json_is_what_is_documented(daily: Callable[..., str]) -> None:
    done = backtest(daily(), "-o", "json")
    assert done.exit_code == 0
    results = json.loads(done.stdout)
    assert [each["estimator"] for each in results] == ESTIMATORS
    assert list(results[0]) == [
        "series", "estimator", "windows", "exceeded", "worst", "soldOfOracle", "seconds"
    ]  # fmt: skip
    assert results[0]["series"] == "node"
    assert results[0]["windows"] == 12
    by_day = results[1]
    assert (by_day["exceeded"], by_day["worst"], by_day["seconds"]) == (0.0, 0.0, 0.0)
    assert 0 < by_day["soldOfOracle"] < 1


def test_the_table(daily: Callable[..., str]) -> None:
    done = backtest(daily())
    assert done.exit_code == 0
    assert "SERIES" in done.stdout
    assert "SOLD OF ORACLE" in done.stdout
    assert all(name in done.stdout for name in ESTIMATORS)
    assert "mean of" not in done.stdout
    assert "capacity 1.25 times the largest value" in done.stdout


def test_the_mean_of_several(daily: Callable[..., str]) -> None:
    done = backtest(daily("a.csv"), daily("b.csv"), "--capacity", "16")
    assert "mean of 2 series" in done.stdout
    assert "WORST SERIES" in done.stdout
    assert "capacity 16" in done.stdout


def test_other_windows_and_histories(daily: Callable[..., str]) -> None:
    done = backtest(daily(), "--history", "1d12h", "--window", "2h", "-o", "json")
    assert json.loads(done.stdout)[0]["windows"] == 24


@pytest.mark.parametrize(
    "header_and_times",
    [
        ("timestamp,value", "2026-11-17T00:00:00Z", "2026-11-17T00:05:00Z"),
        ("timestamp,value", "2026-11-17 00:00:00", "2026-11-17 00:05:00"),
        ("ts,value", "2026-11-17T02:00:00+02:00", "2026-11-17T02:05:00+02:00"),
        ("\ufeffTS , Value", "1.7e9", "1700000300.5"),
        ("node,timestamp,value", "n,1700000000", "n,1700000300"),
    ],
)
def test_times_and_headers(tmp_path: Path, header_and_times: tuple[str, ...]) -> None:
    header, *times = header_and_times
    content = "\n".join([header, *(f"{time},1.5" for time in times)])
    assert "10 min long" in refused(tmp_path, content)  # all was understood, but it is too short


@pytest.mark.parametrize("url", ["foo", "host:9090", "file:///etc/passwd"])
def test_what_is_no_url_is_wrong_usage(url: str) -> None:
    done = backtest("--prometheus", url, "--query", "up")
    assert done.exit_code == 2
    assert f"--prometheus is '{url}', but must be a URL such as http://host:9090" in done.stderr


def test_few_windows_are_told(daily: Callable[..., str]) -> None:
    assert "proves little" not in backtest(daily(days=4)).stdout
    told = backtest(daily(), "--window", "1h").stdout
    assert "\na series of 12 windows proves little: one of them is 8 %\n" in told


def test_a_template_is_compared(tmp_path: Path, daily: Callable[..., str]) -> None:
    path = tmp_path / "template.yaml"
    indented = SEED_TEMPLATE.replace("\n", "\n    ")
    for content in (
        SEED_TEMPLATE,
        f"kind: ConfigMap\nmetadata: {{name: a}}\ndata:\n  spec: |\n    {indented}",
    ):
        path.write_text(content)
        results = json.loads(backtest(daily(), "--template", str(path), "-o", "json").stdout)
        assert [each["estimator"] for each in results] == ["adaptive", "template", *ESTIMATORS[1:]]
        assert results[1]["exceeded"] == 0


def test_a_template_of_another_window_or_history_is_told(
    tmp_path: Path, daily: Callable[..., str]
) -> None:
    path = tmp_path / "template.yaml"
    changed = SEED_TEMPLATE.replace("3600", "7200").replace(
        "historyLength: 3d", "historyLength: 7d"
    )
    path.write_text(changed)
    done = backtest(daily(), "--template", str(path))
    assert done.exit_code == 0
    assert done.stderr == (
        f"slackwater: {path}: it predicts 2 h from 7 d, but is tried on --window 1 h and "
        "--history 3 d\n"
    )


def test_a_misspelt_field_of_a_template_is_told(tmp_path: Path, daily: Callable[..., str]) -> None:
    path = tmp_path / "template.yaml"
    spec = SEED_TEMPLATE.replace("marginFraction", "marginFractoin")
    whole = "targetRef: {name: n, kind: Node}\n" + spec
    prediction = "kind: TimeSeriesPrediction\nmetadata: {name: a}\nspec:\n  "
    for content in (spec, prediction + whole.replace("\n", "\n  ")):
        path.write_text(content)
        done = backtest(daily(), "--template", str(path))
        assert done.exit_code == 0
        assert done.stderr.startswith(f"slackwater: {path}: ")
        assert done.stderr.endswith("marginFractoin is not known and has no effect\n")
        assert done.stderr.count("\n") == 1


def test_the_nodes_name_may_stand_anywhere(tmp_path: Path, daily: Callable[..., str]) -> None:
    path = tmp_path / "template.yaml"
    path.write_text(SEED_TEMPLATE.replace("up", "{{.metadata.name}}"))
    done = backtest(daily(), "--template", str(path), "-o", "json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)[1]["estimator"] == "template"


def test_a_time_series_prediction_is_compared(tmp_path: Path, daily: Callable[..., str]) -> None:
    path = tmp_path / "tsp.yaml"
    spec = SEED_TEMPLATE.replace("\n", "\n  ")
    path.write_text(
        "apiVersion: prediction.crane.io/v1alpha1\nkind: TimeSeriesPrediction\n"
        f"metadata: {{name: a}}\nspec:\n  targetRef: {{name: n, kind: Node}}\n  {spec}"
    )
    done = backtest(daily(), "--template", str(path), "-o", "json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)[1]["estimator"] == "template"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("a: [", "template.yaml:2 is unreadable, but must be YAML or JSON"),
        ("kind: ConfigMap\nmetadata: {name: a}\ndata: {}", "data.spec is missing, but must be"),
        ("kind: ConfigMap\nmetadata: {name: a}\ndata: [1]", "data is a list, but must be"),
        ("kind: ConfigMap\nmetadata: {name: a}\ndata: {spec: 1}", "data.spec is 1, but must be"),
        ("kind: ConfigMap\ndata: {}", "metadata.name is missing, but must be the object's name"),
        ("\x00", "template.yaml is unreadable"),
        (SEED_TEMPLATE.replace("up", "{{if .x}}"), "template.yaml:17, an action, is '{{if .x}}'"),
        ("", "template.yaml is 0 documents, but must be one document"),
        ("[1]", "template.yaml is a list, but must be a mapping"),
        (
            "kind: Secret\nmetadata: {name: a}",
            "template.yaml: kind is 'Secret', but must be TimeSeriesPrediction or ConfigMap",
        ),
        (SEED_TEMPLATE.replace("60s", "2h"), "sampleInterval is '2h', but must be a duration"),
        (SEED_TEMPLATE.replace("dsp\n", "magic\n", 1), "algorithmType"),
    ],
)
def test_a_bad_template(
    tmp_path: Path, daily: Callable[..., str], content: str, sentence: str
) -> None:
    path = tmp_path / "template.yaml"
    path.write_text(content)
    done = backtest(daily(), "--template", str(path))
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_picture(tmp_path: Path, daily: Callable[..., str]) -> None:
    path = tmp_path / "out.svg"
    done = backtest(daily("a<b.csv"), "--svg", str(path))
    assert done.stderr == f"slackwater: wrote {path}\n"
    drawn = path.read_text()
    assert drawn.startswith("<svg")
    assert "a&lt;b" in drawn
    assert "last-day" in drawn


def test_a_picture_that_cannot_be_written(daily: Callable[..., str]) -> None:
    done = backtest(daily(), "--svg", "/nowhere/out.svg")
    assert done.exit_code == 1
    assert (
        done.stderr == "slackwater: /nowhere/out.svg cannot be written: No such file or directory\n"
    )


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "bad.csv line 1 is missing, but must be a header such as ts,value or timestamp,value"),
        ("a,b\n1,2", "bad.csv line 1 is 'a,b', but must be a header"),
        ("ts,timestamp,value\n", "but must be a header"),
        ("ts,value\n", "bad.csv is without a sample, but must be a series with two or more"),
        ("ts,value\n1,nan\n2,\n", "bad.csv is without a sample"),
        ("ts,value\n1,2\n", "bad.csv is of one sample, but must be samples 1 s to 1 h apart"),
        ("ts,value\n0,2\n7200,2\n", "bad.csv is of samples 7200 s apart"),
        ("ts,value\n60,1\nx,1\n", "bad.csv line 3, time, is 'x', but must be seconds since 1970"),
        ("ts,value\n-5,1\n", "time, is '-5'"),
        (
            "ts,value\n1700000000000,1\n",
            "time, is '1700000000000', but must be in seconds since 1970, and these look like",
        ),
        ("ts,value\n60,x\n", "bad.csv line 2, value, is 'x', but must be a number, 0 or more"),
        ("ts,value\n60,-1\n", "value, is '-1'"),
        ("ts,value\n60,inf\n", "value, is 'inf'"),
        ("ts,value\n60,1e300\n", "value, is '1e300', but must be a number, 0 or more, up to 1e+15"),
        (
            "ts,value\n60,1\n120,1\n60,1\n120,1\n",
            "bad.csv line 4, time, is the time of another line, and so are those of 2 of 4 lines",
        ),
        ("ts,value\n0,1\n60,1\n120,1\n9999999999,1\n", "span 166666668 intervals of 60 s"),
        ('ts,value\n"60,1\n', "but must be CSV"),
        (b"ts,value\n\xff\xfe", "no UTF-8 at byte 9"),
        (
            "ts,value\n" + "\n".join(f"{60 * n},1" for n in range(5)),
            "the series bad is 5 min long, but must be over 3 d (--history) and one window of 1 h",
        ),
    ],
)
def test_bad_series(tmp_path: Path, content: str | bytes, sentence: str) -> None:
    assert sentence in refused(tmp_path, content)


def test_lines_in_any_order_and_a_time_twice_are_told(
    tmp_path: Path, daily: Callable[..., str]
) -> None:
    plain = Path(daily())
    header, *rows = plain.read_text().splitlines()
    path = tmp_path / "mixed.csv"
    twice = rows[500].partition(",")[0]
    path.write_text("\n".join([header, *reversed(rows), f"{twice},0.5"]))
    done = backtest(str(path), "-o", "json")
    assert done.exit_code == 0
    assert done.stderr == (
        "slackwater: mixed: its lines are not in the order of time; they were sorted; "
        "1 samples have the time of another; the larger counts\n"
    )
    expected = json.loads(backtest(str(plain), "-o", "json").stdout)
    assert json.loads(done.stdout) == [{**each, "series": "mixed"} for each in expected]


def test_gaps_are_told_and_left_out(tmp_path: Path) -> None:
    rows = [f"{60 * n},1" for n in range(0, 5 * 1440, 5) if not 5000 < n < 5600]
    path = tmp_path / "gap.csv"
    path.write_text("ts,value\n" + "\n".join(rows))
    done = backtest(str(path), "-o", "json")
    assert done.exit_code == 0
    assert (
        done.stderr == "slackwater: gap: 9.9 h without samples; windows in such gaps are left out\n"
    )
    assert (
        json.loads(done.stdout)[0]["windows"] == 48 - 10
    )  # nine without samples, and one without samples before it


def test_usage_above_the_capacity_is_told(daily: Callable[..., str]) -> None:
    done = backtest(daily(), "--capacity", "5")
    assert done.exit_code == 0
    told = (
        "slackwater: node: 37.7 % of its samples are above --capacity 5: is it in the same unit?\n"
    )
    assert done.stderr == told


def test_files_of_one_name_are_told_apart(tmp_path: Path, daily: Callable[..., str]) -> None:
    (tmp_path / "other").mkdir()
    one, other = daily(), daily("other/node.csv")
    done = backtest(one, other, daily("third.csv"), "-o", "json")
    names = list(dict.fromkeys(each["series"] for each in json.loads(done.stdout)))
    assert names == [one, other, "third"]


def test_a_file_that_is_named_twice_is_refused(daily: Callable[..., str]) -> None:
    done = backtest(daily(), daily())
    assert done.exit_code == 2
    assert "node.csv is named twice, but must be named once" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--history", "3x"), "--history is '3x', but must be a duration such as 3d"),
        (("--history", "1h"), "--history is '1h', but must be 1d to 60d"),
        (("--window", ""), "--window is '', but must be 10m to 1d"),
        (("--window", "2d"), "--window is '2d', but must be 10m to 1d"),
        (("--capacity", "0"), "--capacity is 0.0, but must be a number above 0"),
        (("--capacity", "nan"), "--capacity is nan"),
        (("--prometheus", "http://localhost:1"), "--prometheus and --query belong together"),
        (("--prometheus", "http://x", "--query", "up"), "name one or more files, or --prometheus"),
        (("--since", "3d"), "--since is of a query; it needs --prometheus and --query"),
        (("--step", "60s"), "--step is of a query; it needs --prometheus and --query"),
    ],
)
def test_wrong_flags(daily: Callable[..., str], arguments: tuple[str, ...], sentence: str) -> None:
    done = backtest(daily(), *arguments)
    assert done.exit_code == 2
    assert sentence in done.stderr


def test_nothing_to_read() -> None:
    done = backtest()
    assert done.exit_code == 2
    assert "name one or more files, or --prometheus and --query" in done.stderr


@pytest.mark.parametrize("arguments", [("no-such.csv",), ("--template", "no-such.yaml")])
def test_a_file_that_is_not_there(daily: Callable[..., str], arguments: tuple[str, ...]) -> None:
    done = backtest(daily(), *arguments)
    assert done.exit_code == 1
    assert "cannot be read" in done.stderr


def test_the_group_has_help() -> None:
    done = CliRunner().invoke(slackwater, ["forecast", "--help"])
    assert done.exit_code == 0
    assert "backtest" in done.stdout


def answer_ranges(request: Request, wire: Wire) -> None:
    """As Prometheus does, for two nodes; none answers with more points than it allows."""
    asked = {key: values[0] for key, values in parse_qs(request.body.decode()).items()}
    start, end, step = (float(asked[key]) for key in ("start", "end", "step"))
    count = int((end - start) / step) + 1
    assert count <= 11_000
    rows = [
        {
            "metric": {"instance": name},
            "values": [[start + k * step, f"{level + k % 7}"] for k in range(count)],
        }
        for name, level in (("b", 1), ("a", 2))
    ]
    found = rows if asked["query"] == "usage" else []
    body = {"status": "success", "data": {"resultType": "matrix", "result": found}}
    wire.answer(json.dumps(body).encode())


def test_a_query(monkeypatch: pytest.MonkeyPatch) -> None:
    clear_proxies(monkeypatch)
    with serving(answer_ranges) as server:
        url = f"http://127.0.0.1:{server.port}"
        asked = ("--prometheus", url, "--query")
        done = backtest(*asked, "usage", "--since", "8d", "--history", "7d12h", "-o", "json")
        assert done.exit_code == 0, done.stderr
        names = [each["series"] for each in json.loads(done.stdout)]
        assert names == ["{instance='a'}"] * 5 + ["{instance='b'}"] * 5
        assert json.loads(done.stdout)[0]["windows"] == 12
        nothing = backtest(*asked, "nothing")
    assert nothing.exit_code == 1
    assert nothing.stderr == "slackwater: the query 'nothing' gives no series in that time\n"


def test_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    clear_proxies(monkeypatch)
    done = backtest("--prometheus", "http://127.0.0.1:1", "--query", "up")
    assert done.exit_code == 1
    assert done.stderr.startswith("slackwater: Prometheus at http://127.0.0.1:1: ")
    assert done.stderr.count("\n") == 1


def test_no_other_command_imports_numpy() -> None:
    code = (
        "import sys, click\n"
        "from slackwater.cli.main import COMMANDS, slackwater\n"
        "context = click.Context(slackwater)\n"
        "for name in COMMANDS:\n"
        "    if name != 'manager':\n"
        "        slackwater.get_command(context, name)\n"
        "sys.exit('numpy' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_numpy_there_is_one_sentence() -> None:
    code = (
        "import sys\n"
        "sys.modules['numpy'] = None\n"
        "from slackwater.cli.main import main\n"
        "sys.argv = ['slackwater', 'forecast', 'backtest', 'a.csv']\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == (
        "slackwater: forecasts need the package numpy: pip install '.[forecast]' in "
        "Slackwater's source\n"
    )
