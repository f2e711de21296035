"""ColocationConfigs in few words, for the tests of volcano."""

import pytest

from slackwater.contract.volcano.colocation_config import Colocation, read_config
from slackwater.contract.volcano.node import for_node
from slackwater.model.problem import InvalidError


def config(everywhere: object, *nodes: object) -> dict[str, object]:
    return {"globalConfig": everywhere, "nodesConfig": list(nodes)}


def on_node(document: object, **labels: str) -> Colocation:
    return for_node(read_config(document, "c"), labels)


def problems(document: object, **labels: str) -> list[str]:
    with pytest.raises(InvalidError) as caught:
        on_node(document, **labels)
    return [problem.sentence() for problem in caught.value.problems]


def throttle(**said: object) -> dict[str, object]:
    return {"cpuThrottlingConfig": said}


def evicting(**said: object) -> dict[str, object]:
    return {"evictingConfig": {f"evicting{key}Watermark": value for key, value in said.items()}}
