"""Recorded settings and memory as today's types.

Owns what becomes of data that today's types do not take: it is told, and the policy is off or
starts anew. A recording of an older version is still worth a replay.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from slackwater.agent.tick import PolicyState, TickMemory
from slackwater.model.decision import Verb
from slackwater.model.knob import QUOTA, KnobKey
from slackwater.policies.policy import Policy
from slackwater.record.recording import RecordedSettings, decode_key
from slackwater.resolution.planning import Drift
from slackwater.settings.agent import AgentSettings
from slackwater.settings.document import Settings

_Read = TypeVar("_Read")
Tell = Callable[[str], None]


class _Memory(msgspec.Struct, frozen=True):
    """The tick's memory, policy by policy: one that cannot be read costs no other."""

    policies: dict[str, msgspec.Raw] = {}
    drift: dict[KnobKey, Drift] = {}


def settings_of(recorded: RecordedSettings, policies: Sequence[Policy], tell: Tell) -> Settings:
    """All of them as one document. A policy that was off is disabled in it, and so is one whose
    settings cannot be read."""
    known = {policy.name for policy in policies}
    for name in sorted(recorded.policies.keys() - known):
        tell(f"the policy {name} was on, and there is none of this name now")
    agent = _read(recorded.agent, AgentSettings)
    if isinstance(agent, str):
        tell(f"the agent's settings cannot be read, so the defaults count: {agent}")
    sections = {policy.name: policy.settings() for policy in policies}
    for policy in sorted(policies, key=lambda each: each.name):
        if policy.name not in recorded.policies:
            continue
        section = _read(recorded.policies[policy.name], policy.settings)
        if isinstance(section, str):
            tell(f"the settings of {policy.name} cannot be read, so it is off: {section}")
        else:
            sections[policy.name] = section
    return Settings(AgentSettings() if isinstance(agent, str) else agent, sections)


def switched_on(settings: Settings, policies: Sequence[Policy]) -> dict[str, Any]:
    """The settings of each policy that is on, by its name."""
    sections = {policy.name: settings.policies[policy.name] for policy in policies}
    return {name: section for name, section in sections.items() if section.enabled}


def memory_of(recorded: msgspec.Raw, policies: Sequence[Policy], tell: Tell) -> TickMemory:
    memory = _read(recorded, _Memory)
    if isinstance(memory, str):
        tell(f"the memory cannot be read, so all start anew: {memory}")
        return TickMemory()
    states: dict[str, PolicyState] = {}
    for policy in policies:
        if policy.name not in memory.policies:
            continue
        state = _state(memory.policies[policy.name], policy)
        if isinstance(state, str):
            tell(f"the memory of {policy.name} cannot be read, so it starts anew: {state}")
        else:
            states[policy.name] = state
    return TickMemory(states, memory.drift)


def is_blank(recorded: msgspec.Raw) -> bool:
    """Whether nothing was remembered, as at an agent's start."""
    return _read(recorded, _Memory) == _Memory()


def _state(recorded: msgspec.Raw, policy: Policy) -> PolicyState | str:
    try:
        document = _with_whole_intents(msgspec.json.decode(recorded))
        state = msgspec.convert(document, PolicyState, str_keys=True)
        memory = msgspec.convert(state.memory, type(policy.first_memory), str_keys=True)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return str(error)
    return msgspec.structs.replace(state, memory=memory)


def _with_whole_intents(state: Any) -> Any:  # noqa: ANN401 - JSON of any version
    """Older recordings: a quota intent did not name its knob, and any other not its verb."""
    match state:
        case {"intents": [*intents]}:
            whole = [
                {"knob": QUOTA.name, "verb": Verb.SET.value, **each}
                if isinstance(each, dict)
                else each
                for each in intents
            ]
            return {**state, "intents": whole}
        case _:
            return state


def _read(recorded: msgspec.Raw, kind: type[_Read]) -> _Read | str:
    """The value, or why there is none."""
    try:
        return msgspec.json.decode(recorded, type=kind, dec_hook=decode_key)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return str(error)
