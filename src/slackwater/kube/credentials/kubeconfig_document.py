"""Kubeconfig files as documents: read, merged, and their fields taken out one by one.

They are merged as kubectl does it: the first file that has a field or an entry wins, and an entry
is taken as a whole. The error for a bad field names the file, the field, its value and the bound.
"""

import os
from collections.abc import Iterator, Sequence

import msgspec

from slackwater.model.problem import Problem, below, quoted

#: Enough for ten thousand clusters.
_LARGEST_FILE = 8 << 20


class KubeconfigError(ValueError):
    """str() is one sentence."""


class KubeconfigEntry(msgspec.Struct, frozen=True):
    """A mapping in one file, and where: paths in it are relative to that file."""

    file: str
    path: str
    fields: dict[str, object]

    def text(self, key: str) -> str:
        """Empty if it is missing or null."""
        value = self.fields.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.refused(key, "a text")
        return value

    def needed(self, key: str, wanted: str) -> str:
        return self.text(key) or self._complain(key, wanted)

    def flag(self, key: str) -> bool:
        value = self.fields.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.refused(key, "true or false")
        return bool(value)

    def texts(self, key: str) -> tuple[str, ...]:
        found = self.fields.get(key) or ()
        if not isinstance(found, list | tuple) or not all(isinstance(one, str) for one in found):
            raise self.refused(key, "a list of texts")
        return tuple(found)

    def below(self, key: str) -> "KubeconfigEntry":
        """A mapping in it; empty if it is missing or null."""
        value = self.fields.get(key)
        if value is not None and not isinstance(value, dict):
            raise self.refused(key, "a mapping")
        return KubeconfigEntry(self.file, below(self.path, key), value or {})

    def rows(self, key: str) -> Iterator["KubeconfigEntry"]:
        """The mappings of a list in it."""
        found = self.fields.get(key)
        if found is not None and not isinstance(found, list):
            raise self.refused(key, "a list")
        for place, row in enumerate(found or ()):
            where = f"{below(self.path, key)}[{place}]"
            if not isinstance(row, dict):
                raise KubeconfigError(_sentence(self.file, where, row, "a mapping"))
            yield KubeconfigEntry(self.file, where, row)

    def data(self, key: str) -> bytes:
        """The decoded `key`-data, else the content of the file that `key` names."""
        packed = self.text(f"{key}-data")
        if packed:
            import base64

            try:
                return base64.b64decode("".join(packed.split()), validate=True)
            except ValueError:
                raise self.refused(f"{key}-data", "base64") from None
        path = self.place(key)
        return self._content(key, path) if path else b""

    def place(self, key: str) -> str:
        """A field that is a path, resolved against the folder of its file."""
        value = self.text(key)
        return os.path.join(os.path.dirname(os.path.abspath(self.file)), value) if value else ""

    def refused(self, key: str, wanted: str) -> KubeconfigError:
        value = "a secret" if _is_secret(key) and self.fields.get(key) else None
        seen = value or quoted(self.fields.get(key))
        where = f"{self.file}: {below(self.path, key)}"
        return KubeconfigError(Problem(where, seen, wanted).sentence())

    def _complain(self, key: str, wanted: str) -> str:
        raise self.refused(key, wanted)

    def _content(self, key: str, path: str) -> bytes:
        try:
            with open(path, "rb") as file:
                return file.read(_LARGEST_FILE)
        except OSError as error:
            why = error.strerror or "no reason"
            raise self.refused(key, f"a file that can be read ({why})") from None


def read_file(path: str) -> KubeconfigEntry:
    """Raises OSError if there is no such file."""
    import yaml

    with open(path, "rb") as file:
        content = file.read(_LARGEST_FILE)
    try:
        found = yaml.load(content, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    except (yaml.YAMLError, UnicodeError, ValueError, RecursionError) as error:
        why = " ".join(str(getattr(error, "problem", None) or error).split())
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise KubeconfigError(f"{path}{line} is no YAML: {why}") from None
    if found is not None and not isinstance(found, dict):
        # Without its content: it may be a token file that was named by mistake.
        kind = "a list" if isinstance(found, list) else "no mapping"
        raise KubeconfigError(f"{path} is {kind}, but must be a kubeconfig, a mapping")
    return KubeconfigEntry(path, "", found or {})


def find_row(files: Sequence[KubeconfigEntry], key: str, name: str) -> KubeconfigEntry | None:
    """The entry of this name in the first file that has one."""
    for file in files:
        for row in file.rows(key):
            if row.text("name") == name:
                return row
    return None


def names(files: Sequence[KubeconfigEntry], key: str) -> list[str]:
    return [row.text("name") for file in files for row in file.rows(key)]


def _is_secret(key: str) -> bool:
    return key in ("token", "password", "client-key-data")


def _sentence(file: str, where: str, value: object, wanted: str) -> str:
    return Problem(f"{file}: {where}", quoted(value), wanted).sentence()
