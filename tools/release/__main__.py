"""The command line: python -m tools.release --base sha256:DIGEST [--out FOLDER] | --wheel-only.

Makes everything twice and refuses what is not equal. The base image is made here from Debian's
archive, which changes every day: its digest has to be said, so that a person has looked at what the
images stand on (`--show-base` prints it). Exit codes: 0 it is there, 1 it could not be made, or two
builds differ, 2 wrong usage.
"""

import argparse
import datetime as dt
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from slackwater import __version__
from slackwater.cli.install import IMAGE, MANAGER_IMAGE
from tools.children import Children
from tools.console import say
from tools.image.__main__ import MANAGER, image_cache, lacks
from tools.image.archive import EPOCH
from tools.image.building import build, kept_base, lend_base
from tools.image.dockerfile import ImageError
from tools.provision import ROOT, SetupError, cache_folder, provide_uv, trusted_certificates
from tools.release import krew
from tools.release.sbom import Bill, debian_packages, encode, locked_packages, with_debian

#: Each image: its name, the Dockerfile's stage, the extras of our package, the files' names.
IMAGES = (
    (IMAGE, "", ("kafka",), "slackwater"),
    (MANAGER_IMAGE, MANAGER, ("kafka", "forecast", "webhook"), "slackwater-manager"),
)
_EVERYTHING = ("demo", "kafka", "forecast", "webhook", "remote")
SUMS = "SHA256SUMS"


class ReleaseError(Exception):
    """One sentence."""


def main(arguments: Sequence[str]) -> int:
    chosen = parse(arguments)
    children = Children(ROOT)
    try:
        if chosen.show_base:
            say(base_digest(children))
            return 0
        made = make_release(children, Path(chosen.out), chosen.base, chosen.download_from)
    except (ReleaseError, ImageError, SetupError, OSError) as error:
        say(f"release: {error}", sys.stderr)
        return 1
    tell_what_is_left(Path(chosen.out), made)
    return 0


def make_release(
    children: Children, out: Path, base: str, download_from: str = krew.NOWHERE
) -> list[Path]:
    """Into an empty folder; without a base, the wheel, its bill and the kubectl plugin alone."""
    if out.exists() and any(out.iterdir()):
        raise ReleaseError(f"{out} is not empty; remove what is there, or name another with --out")
    out.mkdir(parents=True, exist_ok=True)
    uv = provide_uv(children, cache_folder(os.environ))
    stamp = dt.datetime.fromtimestamp(source_epoch(children), dt.UTC).isoformat()
    made = [wheel_twice(uv, out)]
    made.append(_bill(locked_packages(children, uv, _EVERYTHING, stamp), made[0]))
    made += plugin(made[0], out, download_from)
    if base:
        if (found := base_digest(children)) != base:
            raise ReleaseError(f"the base image here is {found}, not {base}")
        for tag, stage, extras, name in IMAGES:
            archive = image_twice(children, tag, stage, out / f"{name}.tar")
            bill = locked_packages(children, uv, extras, stamp)
            made += [archive, _bill(with_debian(bill, debian_packages(archive)), archive)]
    check_bills(uv, [each for each in made if each.name.endswith(".cdx.json")])
    write_sums(out / SUMS, made)
    return [*made, out / SUMS]


def source_epoch(children: Children) -> int:
    """SOURCE_DATE_EPOCH, or when the commit was made."""
    if said := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(said)
    code, said = children.run_quietly(["git", "log", "-1", "--format=%ct"], {})
    return int(said) if code == 0 else EPOCH


def wheel_twice(uv: Path, out: Path) -> Path:
    with tempfile.TemporaryDirectory() as scratch:
        wheels = [build_wheel(uv, Path(scratch, name)) for name in ("one", "other")]
        _compare(*wheels)
        return Path(shutil.copy2(wheels[0], out))


def build_wheel(uv: Path, folder: Path) -> Path:
    """By the locked build backend and no other, from a copy: no file's time or owner is in it."""
    environ = {**os.environ, **trusted_certificates(os.environ), "SOURCE_DATE_EPOCH": f"{EPOCH}"}
    venv = folder / "environment"
    commands = (
        ["venv", "--quiet", "--python", sys.executable, str(venv)],
        ["sync", "--quiet", "--frozen", "--only-group", "build", "--active"],
        ["build", "--quiet", "--wheel", "--no-build-isolation", "--python", f"{venv}/bin/python",
         "--out-dir", f"{folder}/dist"],
    )  # fmt: skip
    for command in commands:
        subprocess.run(
            [str(uv), *command], check=True, cwd=ROOT, env={**environ, "VIRTUAL_ENV": str(venv)}
        )
    [made] = (folder / "dist").glob("*.whl")
    return made


def plugin(wheel: Path, out: Path, download_from: str) -> list[Path]:
    """For krew: the archive and the manifest."""
    archive, manifest = out / krew.ARCHIVE, out / krew.MANIFEST
    krew.write_archive(wheel, EPOCH, archive)
    manifest.write_text(krew.manifest(__version__, digest_of(archive), download_from))
    return [archive, manifest]


def image_twice(children: Children, tag: str, stage: str, target: Path) -> Path:
    """From nothing but the base, twice."""
    with tempfile.TemporaryDirectory(dir=image_cache()) as scratch:
        archives = []
        for name in ("one", "other"):
            cache = Path(scratch, name)
            lend_base(image_cache(), cache)
            archives.append(build(children, ROOT, cache, tag, stage))
        _compare(*archives)
        shutil.move(archives[0], target)
    return target


def base_digest(children: Children) -> str:
    """Of the base image that the cache has, or that is made now."""
    if lacking := lacks(os.geteuid(), shutil.which):
        raise ReleaseError(lacking)
    return kept_base(children, image_cache())


def _compare(one: Path, other: Path) -> None:
    if digest_of(one) != digest_of(other):
        raise ReleaseError(f"two builds of {one.name} differ: {digest_of(one)}, {digest_of(other)}")


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _bill(bill: Bill, about: Path) -> Path:
    path = about.with_name(f"{about.name}.cdx.json")
    path.write_bytes(encode(bill))
    return path


def check_bills(uv: Path, bills: Sequence[Path]) -> None:
    """By CycloneDX's own schema, with the library in an environment of its own."""
    command = [str(uv), "run", "--quiet", "--isolated", "--frozen", "--only-group", "release"]
    checker = ["python", str(ROOT / "tools/release/check_sbom.py")]
    environ = {**os.environ, **trusted_certificates(os.environ)}
    done = subprocess.run(
        [*command, *checker, *map(str, bills)],
        cwd=ROOT, env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise ReleaseError(f"a bill of materials is not as its schema says: {done.stderr.strip()}")


def write_sums(target: Path, files: Sequence[Path]) -> None:
    target.write_text("".join(f"{digest_of(each)}  {each.name}\n" for each in files))


def tell_what_is_left(out: Path, made: Sequence[Path]) -> None:
    for each in made:
        say(f"release: {each}")
    say(f"""
Made twice, equal. What a person has to do; this program publishes and signs nothing:
  1. compare {SUMS} with that of somebody else who made it from the same commit;
  2. sign it:      gpg --armor --detach-sign {out}/{SUMS}
  3. sign the tag: git tag --sign v<version>
  4. push the images, and sign each by the registry's digest: cosign sign NAME@sha256:...
  5. write those digests into the release's values (image.digest, manager.image.digest);
  6. upload {krew.ARCHIVE} to where {krew.MANIFEST} says, which --download-from decides;
     from there: kubectl krew install --manifest={out}/{krew.MANIFEST}""")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    parser.add_argument("--base", default="", help="the base image's digest, sha256:...")
    parser.add_argument("--show-base", action="store_true", help="print that of the one here")
    parser.add_argument("--wheel-only", action="store_true", help="no images, so no base")
    parser.add_argument(
        "--download-from",
        default=krew.NOWHERE,
        metavar="URL",
        help=f"where {krew.ARCHIVE} will be, for krew; default: {krew.NOWHERE}, which is nowhere",
    )
    parser.add_argument("--out", default=str(ROOT / "dist"), help="an empty folder, or none yet")
    chosen = parser.parse_args(arguments)
    if not (chosen.base or chosen.show_base or chosen.wheel_only):
        parser.error(
            "--base is missing, but must be the digest of the base image that you have looked at, "
            "sha256:...; `python -m tools.release --show-base` prints that of the one here"
        )
    return chosen


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
