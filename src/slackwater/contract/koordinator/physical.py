"""What pods may have of an amplified Node in the machine's own units.

A Node's allocatable CPU and memory may be amplified; what is measured, and every quota, is not. The
webhook that amplifies keeps the raw amounts in an annotation, and whoever compares allocatable with
usage takes those.
"""

import msgspec

from slackwater.contract.document import Field, member, parse_json
from slackwater.contract.koordinator.normalization import (
    AMPLIFICATION_ANNOTATION,
    RAW_ALLOCATABLE_ANNOTATION,
)
from slackwater.contract.kubernetes import Node, milli_cpu, size
from slackwater.model.problem import DocumentName, InvalidError


def physical_node(node: Node) -> Node:
    """With raw amounts as allocatable, where it is amplified. A raw amount that cannot be read, or
    is larger than the amplified one, says nothing."""
    text = node.annotations.get(RAW_ALLOCATABLE_ANNOTATION, "")
    if not text or AMPLIFICATION_ANNOTATION not in node.annotations:
        return node
    source = DocumentName("", "Node", "", node.name)
    try:
        raw = Field(source, RAW_ALLOCATABLE_ANNOTATION, parse_json(text, source))
        cpu, memory = member(raw, "cpu"), member(raw, "memory")
        raw_cpu = None if cpu is None else milli_cpu(cpu)
        raw_memory = None if memory is None else size(memory)
    except InvalidError:
        return node
    if raw_cpu is not None and isinstance(node.allocatable_cpu, int):
        node = msgspec.structs.replace(node, allocatable_cpu=min(raw_cpu, node.allocatable_cpu))
    if raw_memory is not None and isinstance(node.allocatable_memory, int):
        least = min(raw_memory, node.allocatable_memory)
        node = msgspec.structs.replace(node, allocatable_memory=least)
    return node
