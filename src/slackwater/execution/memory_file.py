"""What policies have learnt, kept across restarts: one small file for each in the state folder.

A file that cannot be read is told in one sentence, and its policy starts anew. A new one replaces
the old as a whole: a history at most once a minute and at the end; what is about values that stand
on the node, when it changes.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from slackwater.bounded_read import read_start
from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.policies.policy import Policy

#: A histogram has about a hundred buckets of 30 bytes; a thousand throttled pods of two containers
#: have 300 bytes each.
_LONGEST = 1 << 21
_INTERVAL = Micros(60_000_000)


class _Standing(msgspec.Struct, frozen=True):
    """What is about values that stand: they are gone with the boot."""

    boot: str
    memory: msgspec.Raw


class MemoryFiles:
    """Guards the files of the policies that keep something. `boot` identifies the machine's."""

    def __init__(
        self,
        folder: str,
        policies: Sequence[Policy],
        wall_clock: Callable[[], float] = time.time,
        boot: str = "",
    ) -> None:
        kept = [policy for policy in policies if policy.keep is not None]
        self._folder = folder
        self._histories = [policy for policy in kept if not policy.keeps_what_stands]
        self._standing = [policy for policy in kept if policy.keeps_what_stands]
        self._wall_clock = wall_clock
        self._boot = boot
        self._saved_at: Micros | None = None
        self._problem = ""
        #: What stands, by policy, as it was last written or found.
        self._written: dict[str, Any] = {}

    def load(self) -> tuple[dict[str, Any], tuple[str, ...]]:
        """What each policy kept, by its name; and a sentence for each file that is bad."""
        found: dict[str, Any] = {}
        problems: list[str] = []
        for policy in (*self._histories, *self._standing):
            memory = self._read(policy)
            if isinstance(memory, Gap):
                problems.append(memory.reason)
            elif memory is not None:
                found[policy.name] = memory
        return found, tuple(problems)

    def offer(self, memories: Mapping[str, Any], at: Micros) -> str:
        """After each tick. What went wrong at the last time."""
        if self._saved_at is None:
            self._saved_at = at
        problem = self._save_standing(memories)
        if at - self._saved_at >= _INTERVAL:
            self._saved_at = at
            self._problem = self._save_histories(memories)
        return problem or self._problem

    def save(self, memories: Mapping[str, Any]) -> str:
        """A full disk costs the last minutes of a history, and nothing else."""
        return self._save_standing(memories) or self._save_histories(memories)

    def forget_what_stands(self) -> None:
        """It was released."""
        for policy in self._standing:
            self._forget(policy)

    def _save_histories(self, memories: Mapping[str, Any]) -> str:
        now = int(self._wall_clock())
        for policy in self._histories:
            if policy.keep is not None and policy.name in memories:
                text = msgspec.json.encode(policy.keep(memories[policy.name], now))
                if problem := self._write(policy, text):
                    return problem
        return ""

    def _save_standing(self, memories: Mapping[str, Any]) -> str:
        """Of a policy that is off nothing stands."""
        for policy in self._standing:
            if policy.keep is None or policy.name not in memories:
                self._forget(policy)
                continue
            memory = policy.keep(memories[policy.name], 0)
            if memory == self._written.get(policy.name, policy.first_memory):
                continue
            kept = _Standing(self._boot, msgspec.Raw(msgspec.json.encode(memory)))
            if problem := self._write(policy, msgspec.json.encode(kept)):
                return problem
            self._written[policy.name] = memory
        return ""

    def _write(self, policy: Policy, text: bytes) -> str:
        path = self._path(policy)
        try:
            with open(f"{path}.new", "wb") as file:
                file.write(text)
            os.replace(f"{path}.new", path)
        except OSError as error:
            with suppress(OSError):
                os.unlink(f"{path}.new")
            return f"{path} cannot be written: {error.strerror}"
        return ""

    def _forget(self, policy: Policy) -> None:
        if self._written.pop(policy.name, None) is not None:
            with suppress(OSError):
                os.unlink(self._path(policy))

    def _path(self, policy: Policy) -> str:
        return f"{self._folder}/{policy.name}.json"

    def _read(self, policy: Policy) -> object | Gap | None:
        path = self._path(policy)
        if not os.path.exists(path):
            return None
        if policy.keeps_what_stands:
            # Whatever is in it: a file that is there is to be replaced, or removed.
            self._written[policy.name] = path
        contents = read_start(path, _LONGEST)
        if isinstance(contents, Gap):
            return Gap(f"{path} is {contents.reason}; {policy.name} starts anew")
        try:
            memory = self._decode(policy, contents.data)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            return Gap(f"{path} cannot be used: {error}; {policy.name} starts anew")
        return memory

    def _decode(self, policy: Policy, text: bytes) -> object | None:
        if policy.keeps_what_stands:
            kept = msgspec.json.decode(text, type=_Standing)
            if kept.boot != self._boot:
                return None
            text = bytes(kept.memory)
        memory: object = msgspec.json.decode(text, type=type(policy.first_memory))
        return memory
