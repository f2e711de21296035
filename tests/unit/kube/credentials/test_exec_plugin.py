"""Programs that give credentials: real programs, run as kubectl runs them."""

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from slackwater.http.endpoint import Identity
from slackwater.http.errors import CredentialsError
from slackwater.kube.credentials import exec_plugin as exec_module
from slackwater.kube.credentials.exec_plugin import ExecCredentials, ExecPlugin

V1 = "client.authentication.k8s.io/v1"
Make = Callable[..., ExecCredentials]


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make(tmp_path: Path, clock: Clock) -> Make:
    """Credentials by a program whose body is given; it notes each run in the file `runs`."""

    def made(body: str, **fields: object) -> ExecCredentials:
        program = tmp_path / "plugin"
        program.write_text(
            f"#!{sys.executable}\nimport json, os, sys\n"
            f"open({str(tmp_path / 'runs')!r}, 'a').write('x')\n"
            f"runs = os.path.getsize({str(tmp_path / 'runs')!r})\n"
            "def give(api='client.authentication.k8s.io/v1', **status):\n"
            "    kind = 'ExecCredential'\n"
            "    print(json.dumps({'apiVersion': api, 'kind': kind, 'status': status}))\n"
            f"{body}\n"
        )
        program.chmod(0o755)
        plugin = ExecPlugin(V1, str(program), interactive_mode="Never", **fields)  # type: ignore[arg-type]
        return ExecCredentials(plugin, dict(os.environ), clock)

    return made


def runs(tmp_path: Path) -> int:
    return os.path.getsize(tmp_path / "runs")


def test_a_token(make: Make, tmp_path: Path) -> None:
    credentials = make("give(token='abc')")
    assert credentials.identity() == Identity("Bearer abc")
    assert credentials.identity() == Identity("Bearer abc")
    assert runs(tmp_path) == 1


def test_a_certificate(make: Make) -> None:
    credentials = make("give(clientCertificateData='CERT', clientKeyData='KEY')")
    assert credentials.identity() == Identity("", b"CERT", b"KEY")


def test_beta_speaks_beta(make: Make, tmp_path: Path) -> None:
    beta = "client.authentication.k8s.io/v1beta1"
    made = make(f"give(api={beta!r}, token='abc')")
    plugin = ExecPlugin(beta, made._plugin.command, interactive_mode="Never")
    assert ExecCredentials(plugin, dict(os.environ)).identity() == Identity("Bearer abc")


def test_it_is_run_again_when_they_expire(make: Make, tmp_path: Path, clock: Clock) -> None:
    credentials = make("give(token=f't{runs}', expirationTimestamp='1970-01-12T13:46:41Z')")
    assert credentials.identity() == Identity("Bearer t1")
    clock.now = 1_000_000.9
    assert credentials.identity() == Identity("Bearer t1")
    clock.now = 1_000_001.0
    assert credentials.identity() == Identity("Bearer t2")
    assert runs(tmp_path) >= 2


def test_it_is_run_again_after_a_refusal(make: Make, tmp_path: Path) -> None:
    credentials = make("give(token=f't{runs}')")
    old = credentials.identity()
    assert credentials.renew(old)
    assert credentials.identity() == Identity("Bearer t2")
    assert credentials.renew(old), "somebody else has renewed it meanwhile"
    assert runs(tmp_path) == 2


def test_the_same_again_is_no_renewal(make: Make) -> None:
    credentials = make("give(token='same')")
    assert not credentials.renew(credentials.identity())


def test_threads_wait_for_one_run(make: Make, tmp_path: Path) -> None:
    credentials = make("import time; time.sleep(0.2); give(token='abc')")
    found: list[Identity] = []
    threads = [
        threading.Thread(target=lambda: found.append(credentials.identity())) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [Identity("Bearer abc")] * 4
    assert runs(tmp_path) == 1


def test_what_the_program_is_told(make: Make) -> None:
    body = (
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "give(token='-'.join([os.environ['MY'], *sys.argv[1:], info['apiVersion'], info['kind'],"
        " str(info['spec']['interactive']), info['spec']['cluster']['server'],"
        " str(sys.stdin.read() == '')]))"
    )
    credentials = make(
        body, args=("a", "b"), env=(("MY", "own"),), cluster={"server": "https://x:1"}
    )
    token = f"own-a-b-{V1}-ExecCredential-False-https://x:1-True"
    assert credentials.identity() == Identity(f"Bearer {token}")


def test_without_being_asked_nothing_is_told_of_the_cluster(make: Make) -> None:
    credentials = make(
        "give(token=str(sorted(json.loads(os.environ['KUBERNETES_EXEC_INFO'])['spec'])))"
    )
    assert credentials.identity().authorization == "Bearer ['interactive']"


BAD = [
    ("sys.exit(7)", "it ended with exit code 7"),
    ("print('hello')", "its answer is no ExecCredential"),
    ("print('[' * 100000)", "its answer is no ExecCredential"),
    ("print(json.dumps({'status': {'token': 7}}))", "its answer is no ExecCredential"),
    ("give(api='v2', token='x')", f"its apiVersion is 'v2', but must be {V1}"),
    ("give()", "it gave neither a token nor a certificate"),
    ("give(clientCertificateData='C')", "a certificate without its key, or a key alone"),
    ("give(clientKeyData='C')", "a certificate without its key, or a key alone"),
    ("give(token='x', expirationTimestamp='soon')", "its answer is no ExecCredential"),
    ("give(token='x', expirationTimestamp='2026-01-01T00:00:00')", "no ExecCredential"),
]


@pytest.mark.parametrize(("body", "sentence"), BAD)
def test_a_program_that_fails_is_told(body: str, sentence: str, make: Make) -> None:
    with pytest.raises(CredentialsError, match="the credentials' program plugin: ") as told:
        make(body).identity()
    assert sentence in str(told.value)
    assert "\n" not in str(told.value)


def test_a_program_that_is_not_there_has_a_hint(tmp_path: Path) -> None:
    plugin = ExecPlugin(V1, str(tmp_path / "none"), install_hint="get it\n  from the shop")
    with pytest.raises(CredentialsError, match="none: it is not installed; get it from the shop"):
        ExecCredentials(plugin, {}).identity()


def test_a_program_that_may_not_be_run_is_told(tmp_path: Path) -> None:
    (tmp_path / "plugin").write_text("no program")
    plugin = ExecPlugin(V1, str(tmp_path / "plugin"))
    with pytest.raises(CredentialsError, match="plugin: Permission denied"):
        ExecCredentials(plugin, {}).identity()


def test_a_program_that_hangs_is_ended(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exec_module, "_PATIENCE", 0.3)
    with pytest.raises(CredentialsError, match=r"no answer within 0\.3 s"):
        make("import time; time.sleep(60)").identity()


class Terminal:
    closed = False

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("mode", "at_terminal", "asks"),
    [
        ("Never", True, False),
        ("Never", False, False),
        ("IfAvailable", True, True),
        ("IfAvailable", False, False),
        ("Always", True, True),
    ],
)
def test_who_may_talk_to_a_person(
    mode: str, at_terminal: bool, asks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal() if at_terminal else None)
    assert exec_module._may_ask(ExecPlugin(V1, "x", interactive_mode=mode)) is asks
    told = json.loads(exec_module._told(ExecPlugin(V1, "x"), asks))
    assert told["spec"] == {"interactive": asks}


def test_one_that_must_talk_needs_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(CredentialsError, match="there is no terminal here"):
        ExecCredentials(ExecPlugin(V1, "x", interactive_mode="Always"), {}).identity()
