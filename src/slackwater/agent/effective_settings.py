"""The settings in force: our own, and a foreign configuration's where ours leave room for it.

Our own settings switch a policy on directly. A foreign dialect is optional: a policy that none
mentions is set by our own settings alone. Configuration that is wrong is a problem to report, and
what was good before stays.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from slackwater.contract.decoding import read_over
from slackwater.contract.document import Field
from slackwater.contract.kubernetes import Node
from slackwater.contract.schema import ForeignSection
from slackwater.contract.volcano.node import EVERY_FEATURE, sections_for_node
from slackwater.model.problem import ConfigurationProblem, InvalidError
from slackwater.observation.objects.object_set import Objects
from slackwater.policies.catalog import POLICIES, schema_of
from slackwater.policies.policy import Policy
from slackwater.settings.agent_document import Settings, SettingsSchema, section_key
from slackwater.settings.agent_settings import AgentSettings

#: What a foreign configuration among the objects says of our sections, by their keys, on a node
#: with these labels. Raises InvalidError.
Dialect = Callable[[Objects, Mapping[str, str]], Mapping[str, ForeignSection]]
NO_TEXTS: Mapping[str, str] = {}


def no_dialect(_objects: Objects, _labels: Mapping[str, str]) -> Mapping[str, ForeignSection]:
    return {}


def volcano_dialect(features: tuple[str, ...] = EVERY_FEATURE) -> Dialect:
    """Volcano's ColocationConfig as settings, as far as this agent supports its features."""

    def dialect(objects: Objects, labels: Mapping[str, str]) -> Mapping[str, ForeignSection]:
        return sections_for_node(objects.colocation, labels, features)

    return dialect


class EffectiveSettings(msgspec.Struct, frozen=True):
    """Settings by policy name, where a policy that is off is missing; and the agent's own.
    `off` says of each policy that is missing what would switch it on; `wanted` are those that a
    foreign configuration enables, in vain or not. `remarks` say which of its values do not count,
    because ours are stated. `outdated`: the objects say something that cannot be used, and this is
    from before."""

    policies: dict[str, Any] = {}
    agent: AgentSettings = AgentSettings()
    problems: tuple[ConfigurationProblem, ...] = ()
    off: dict[str, str] = {}
    wanted: frozenset[str] = frozenset()
    remarks: tuple[str, ...] = ()
    outdated: bool = False

    def is_known(self) -> bool:
        """Whether the objects were ever good: then each policy is on, or off for a reason."""
        return bool(self.policies or self.off)


def resolve_settings(
    objects: Objects,
    node: Node | None,
    before: EffectiveSettings,
    texts: Mapping[str, str] = NO_TEXTS,
    dialect: Dialect = no_dialect,
    policies: Sequence[Policy] = POLICIES,
    schema: SettingsSchema | None = None,
) -> EffectiveSettings:
    """`texts` is what flags and variables say over the objects' settings; `before` is what was in
    force so far; `schema` is that of the policies, where it is at hand."""
    try:
        own = (schema or schema_of(policies)).with_texts(objects.settings, texts)
        labels = node.labels if node else {}
        foreign = dialect(objects, labels)
        choices = [
            _bind(
                policy, _choose(policy, own, foreign.get(section_key(policy.name))), objects, node
            )
            for policy in policies
        ]
    except InvalidError as error:
        documents = (each.document for each in error.problems)
        found = ConfigurationProblem(
            problems=error.problems,
            about=next((each for each in documents if each and each.kind), None),
            consequence="what was set before stays" if before.is_known() else "",
        )
        problems = (*objects.problems, found)
        return msgspec.structs.replace(before, problems=problems, outdated=True)
    return EffectiveSettings(
        {each.policy: each.settings for each in choices if each.settings is not None},
        own.agent,
        objects.problems,
        {each.policy: each.why_off for each in choices if each.settings is None},
        frozenset(each.policy for each in choices if each.wanted),
        tuple(remark for each in choices for remark in each.remarks),
    )


class _Choice(msgspec.Struct, frozen=True):
    """A policy's settings, or why it is off."""

    policy: str
    settings: Any = None
    why_off: str = ""
    wanted: bool = False
    remarks: tuple[str, ...] = ()


def _choose(policy: Policy, own: Settings, foreign: ForeignSection | None) -> _Choice:
    name, key, settings = policy.name, section_key(policy.name), own.policies[policy.name]
    if foreign is None:
        if settings.enabled:
            return _Choice(name, settings)
        return _Choice(name, why_off=f"{key}.enabled is false")
    where, wanted = Field("", foreign.title, None), foreign.wanted
    if settings.enabled:
        stated = {each for each in foreign.values if _is_stated(policy, own, each)}
        free = {each: value for each, value in foreign.values.items() if each not in stated}
        remarks = tuple(
            f"{key}.{each} is {ours} by our settings; {foreign.title}'s {theirs} does not count"
            for each, theirs in foreign.values.items()
            if each in stated and (ours := getattr(settings, each)) != theirs
        )
        chosen = read_over(msgspec.structs.replace(where, value=free), settings)
        return _Choice(name, chosen, wanted=wanted, remarks=remarks)
    if foreign.switched_on is None:
        return _Choice(name, why_off=foreign.why_off, wanted=wanted)
    said = dict(foreign.switched_on)
    return _Choice(
        name, read_over(msgspec.structs.replace(where, value=said), settings), "", wanted
    )


def _bind(policy: Policy, choice: _Choice, objects: Objects, node: Node | None) -> _Choice:
    """With what the objects add, where the policy is on."""
    if policy.bind is None or choice.settings is None:
        return choice
    labels, annotations = (node.labels, node.annotations) if node else ({}, {})
    bound = policy.bind(choice.settings, objects.ensurance, labels, annotations)
    if isinstance(bound, str):
        return msgspec.structs.replace(choice, settings=None, why_off=bound)
    return msgspec.structs.replace(choice, settings=bound)


def _is_stated(policy: Policy, own: Settings, name: str) -> bool:
    """In a file, a flag or a variable; whoever builds settings by hand states what differs."""
    default, value = (
        getattr(each, name) for each in (policy.settings(), own.policies[policy.name])
    )
    return f"{section_key(policy.name)}.{name}" in own.stated or value != default
