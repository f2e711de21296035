"""Fetches the broker's archives once, by Maven, into the cache; each is compared with its checksum.

Owns the cache's folder, which appears by one rename: what is there is whole and as pinned. From
where Maven fetches is the machine's own setting (settings.xml); this package names no place.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from tools.cache import publish, scratch_folder, sole_builder
from tools.children import Children


class KafkaError(Exception):
    """One sentence for the person: what is wrong and, where something helps, what to do."""


VERSION = "4.0.2"
_HERE = Path(__file__).parent
POM = _HERE / "pom.xml"
CHECKSUMS = _HERE / "checksums.txt"
#: Pinned like the archives: its own are not checked, what it brings is.
GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_HASH_DIGITS = 16
_LAST_LINES = 10


def fetch(children: Children, cache: Path) -> Path:
    """The folder of archives, fetched where the cache has none; half a minute, 40 MB."""
    kept = kept_folder(cache)
    if kept.exists():
        return kept
    with sole_builder(kept.parent), scratch_folder(kept.parent) as scratch:
        if not kept.exists():  # another process has fetched it while this one waited
            archives = scratch / "archives"
            run_maven(children, scratch, archives)
            compare(archives, pinned(CHECKSUMS.read_text()))
            publish(archives, kept)
    return kept


def kept_folder(cache: Path) -> Path:
    hashed = hashlib.sha256(POM.read_bytes() + CHECKSUMS.read_bytes()).hexdigest()
    return cache / "kafka" / f"{VERSION}-{hashed[:_HASH_DIGITS]}"


def run_maven(children: Children, scratch: Path, archives: Path) -> None:
    """With a repository of its own: nothing of the person's is used or changed."""
    command = [
        *("mvn", "--batch-mode", "--quiet", "--file", str(POM), GOAL),
        f"-Dmaven.repo.local={scratch}/repository",
        f"-DoutputDirectory={archives}",
        "-DincludeScope=runtime",
    ]
    code, said = children.run_quietly(command, {})
    if code != 0:
        words = "\n".join(said.splitlines()[-_LAST_LINES:]) or "it said nothing"
        raise KafkaError(f"Maven cannot fetch Kafka {VERSION}; its last words:\n{words}")


def pinned(text: str) -> dict[str, str]:
    """By archive, as sha256sum writes it."""
    rows = (line.split() for line in text.splitlines())
    return {name: digest for digest, name in rows}


def compare(folder: Path, wanted: Mapping[str, str]) -> None:
    found = {path.name: path for path in folder.iterdir()} if folder.is_dir() else {}
    if found.keys() != wanted.keys():
        names = ", ".join(sorted(found.keys() ^ wanted.keys()))
        raise KafkaError(f"Maven brought other archives than {CHECKSUMS.name} lists: {names}")
    for name, path in found.items():
        if hashlib.sha256(path.read_bytes()).hexdigest() != wanted[name]:
            raise KafkaError(f"{name} is not what {CHECKSUMS.name} says; nothing of it is kept")
