"""What a make target needs before it starts: uv, the virtual environment, and Debian packages.

Refuses to touch the machine's Python: uv goes into the cache folder, everything else into `.venv`.
Each need is compared with what is really there, so a second run says and does nothing.
"""

import fcntl
import importlib.util
import os
import re
import shutil
import ssl
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tools import debian
from tools.children import INTERRUPTED, Children
from tools.console import say

ROOT = Path(__file__).resolve().parent.parent
UV_VERSION = (0, 13, 7)
UV_NAME = "uv-" + ".".join(map(str, UV_VERSION))
# Answers that a person's own pip settings must not change for the fetch of uv.
PIP_ENV = {
    "PIP_USER": "0",
    "PIP_REQUIRE_VIRTUALENV": "0",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_ROOT_USER_ACTION": "ignore",
}

#: The profiles that need Debian packages, and who in them does.
NEEDING_PACKAGES = {"test": "the real-kernel and cluster stages", "cluster": "nodes of the cluster"}


class SetupError(Exception):
    """Something is needed and cannot be had; the text is one sentence for the person."""


def tell(text: str) -> None:
    say(f"setup: {text}", sys.stderr)


def run_aloud(children: Children, command: Sequence[str], env: Mapping[str, str]) -> int:
    """What pip and uv say is news about the setup, not the result of a make target."""
    return children.run(command, env, sys.stderr.fileno())


def provide(profile: str) -> int:
    """Fetches what the profile lacks. 0: it is all there, or told as left out; 1: it cannot be."""
    children = Children(ROOT)
    children.heed_endings()
    try:
        cache = cache_folder(os.environ)
        with alone(cache):
            provide_environment(children, provide_uv(children, cache))
            if profile in NEEDING_PACKAGES:
                provide_packages(children, packages_for(profile), NEEDING_PACKAGES[profile])
    except SetupError as error:
        tell(str(error))
        return 1
    except KeyboardInterrupt:
        children.end_all()
        tell("stopped")
        return INTERRUPTED
    return 0


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Where downloads are kept, outside the repository."""
    try:
        if chosen := environ.get("SLACKWATER_CACHE"):
            return Path(chosen).expanduser().absolute()
        return Path(environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "slackwater"
    except RuntimeError as error:
        raise SetupError(
            "this user has no home folder; name one for downloads with SLACKWATER_CACHE"
        ) from error


@contextmanager
def alone(cache: Path) -> Iterator[None]:
    """Two setups at once would fetch twice and undo each other's policy-rc.d."""
    try:
        (cache / "tools").mkdir(parents=True, exist_ok=True)
        lock = (cache / "tools" / "setup.lock").open("w")
    except OSError as error:
        raise SetupError(
            f"the cache folder {cache} cannot be written ({error.strerror}); "
            "name another with SLACKWATER_CACHE"
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell("another setup is running; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def provide_uv(children: Children, cache: Path) -> Path:
    kept = cache / "tools" / UV_NAME
    if os.access(kept, os.X_OK):
        return kept
    on_path = shutil.which("uv")
    if on_path and uv_is_new_enough(children.run_quietly([on_path, "--version"], {})[1]):
        return Path(on_path)
    fetch_uv(children, kept)
    return kept


def uv_is_new_enough(said: str) -> bool:
    """Reads `uv 0.13.7 (abc 2026-01-01)`; anything else is no uv that we know."""
    found = re.match(r"uv (\d+)\.(\d+)\.(\d+)", said)
    return found is not None and tuple(map(int, found.groups())) >= UV_VERSION


def fetch_uv(children: Children, kept: Path) -> None:
    """Puts the one program into place in one step: a broken fetch leaves nothing behind."""
    version = UV_NAME.removeprefix("uv-")
    tell(f"fetching uv {version} from the Python package index: it makes the virtual environment")
    with tempfile.TemporaryDirectory(dir=kept.parent, prefix="fetch-") as scratch:
        for way in (fetch_by_venv, fetch_by_target, fetch_by_debian_venv):
            program = way(children, Path(scratch), f"uv=={version}")
            if program is not None and program.exists():
                program.replace(kept)
                return
    raise SetupError(
        f"uv could not be fetched with {sys.executable}; install Python's venv module "
        f"(Debian: python3-venv) or uv {version} or newer, and see pip's words above, if any"
    )


def fetch_by_venv(children: Children, scratch: Path, wanted: str) -> Path | None:
    if importlib.util.find_spec("ensurepip") is None:
        return None
    made, _ = children.run_quietly([sys.executable, "-m", "venv", str(scratch / "venv")], {})
    pip = [str(scratch / "venv/bin/python"), "-m", "pip", "install", "--only-binary=:all:"]
    if made != 0 or run_aloud(children, [*pip, wanted], PIP_ENV) != 0:
        return None
    return scratch / "venv/bin/uv"


def fetch_by_target(children: Children, scratch: Path, wanted: str) -> Path | None:
    """Debian's python3 comes without ensurepip, but often with a pip that needs no venv."""
    if importlib.util.find_spec("pip") is None:
        return None
    pip = [sys.executable, "-m", "pip", "install", "--only-binary=:all:"]
    if run_aloud(children, [*pip, "--target", str(scratch / "target"), wanted], PIP_ENV) != 0:
        return None
    return scratch / "target/bin/uv"


def fetch_by_debian_venv(children: Children, scratch: Path, wanted: str) -> Path | None:
    """Only where Debian's own interpreter runs: its venv package helps no other one."""
    if not sys.executable.startswith("/usr/bin/") or debian.obstacle(os.geteuid(), shutil.which):
        return None
    tell("installing python3-venv from Debian: this Python has neither venv nor pip")
    if debian.install(children, ("python3-venv",)):
        return None
    importlib.invalidate_caches()
    return fetch_by_venv(children, scratch, wanted)


def provide_environment(children: Children, uv: Path) -> None:
    """Makes `.venv` equal to the lock file; uv itself says whether it already is."""
    venv = ROOT / ".venv"
    if was_made_elsewhere(venv):
        tell("removing .venv: it was copied here, and its programs still point to where it was")
        shutil.rmtree(venv)
    python = str(getattr(sys, "_base_executable", None) or sys.executable)
    command = [str(uv), "sync", "--locked", "--python", python]
    env = {
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_PROJECT_ENVIRONMENT": str(venv),
        # another activated environment is not ours, and uv would warn about it
        "VIRTUAL_ENV": str(venv),
    }
    in_step, _ = children.run_quietly([*command, "--check", "--quiet"], env)
    if in_step == 0:
        return
    tell("bringing the virtual environment .venv in step with uv.lock: the project runs in it")
    if run_aloud(children, command, {**env, **trusted_certificates(os.environ)}) != 0:
        raise SetupError("the virtual environment could not be made; uv's own words are above")


def trusted_certificates(environ: Mapping[str, str]) -> dict[str, str]:
    """uv brings its own list; behind a company's proxy only the machine's list will do."""
    paths = ssl.get_default_verify_paths()
    listed = paths.cafile or (paths.capath and os.listdir(paths.capath))
    if "UV_SYSTEM_CERTS" in environ or not listed:
        return {}
    return {"UV_SYSTEM_CERTS": "true"}


def was_made_elsewhere(venv: Path) -> bool:
    """A virtual environment holds its own path; uv sees a copied one as in step."""
    activate = venv / "bin" / "activate"
    if not activate.is_file():
        return False
    return f"VIRTUAL_ENV='{venv}'\n" not in activate.read_text(errors="replace")


def packages_for(profile: str) -> tuple[str, ...]:
    from tools import browser, cluster, image, kafka, kubernetes, vm

    wanted = (*kubernetes.DEBIAN_PACKAGES, *cluster.DEBIAN_PACKAGES, *image.DEBIAN_PACKAGES)
    if profile == "test":
        wanted = (*vm.DEBIAN_PACKAGES, *wanted, *kafka.DEBIAN_PACKAGES, *browser.DEBIAN_PACKAGES)
        wanted = (*wanted, "strace", "prometheus", "prometheus-pushgateway")
    return tuple(dict.fromkeys(wanted))


def provide_packages(children: Children, wanted: Sequence[str], who: str) -> None:
    """Debian packages; without them the stages that need them are not run."""
    if shutil.which("dpkg-query") is None:
        tell(f"not a Debian machine: looked for none of {', '.join(wanted)} (for {who})")
        return
    lacking = debian.missing(wanted, debian.installed(children, wanted))
    if not lacking:
        return
    names = ", ".join(lacking)
    if reason := debian.obstacle(os.geteuid(), shutil.which):
        tell(f"left out, because {reason}: {names}; {who} need them")
        return
    tell(f"installing {names} from Debian: for {who}")
    if problem := debian.install(children, lacking):
        tell(f"left out, because apt-get failed: {names}; {who} need them")
        say(problem, sys.stderr)
