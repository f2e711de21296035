"""Files of ours: what stands around `spec` in each of them, as in an object of Kubernetes."""

from typing import Any, Literal

import msgspec

from slackwater.contract.decoding import check_struct
from slackwater.contract.document import Field
from slackwater.contract.schema import SettingsStruct, struct_type
from slackwater.model.problem import DocumentName, Problem

API_VERSION = "slackwater.io/v1"


def check_file(
    document: object,
    source: str | DocumentName,
    kind: str,
    spec: type[msgspec.Struct],
    problems: list[Problem],
) -> dict[str, Any]:
    """What a file states under `spec`. `kind` is what it must say it is, `source` is its name.
    Its metadata are anybody's."""
    required = any(each.required for each in struct_type(spec).fields)
    file = msgspec.defstruct(
        f"{kind}File",
        [
            ("apiVersion", Literal[API_VERSION]),
            ("kind", Literal[kind]),
            ("metadata", Any, None),
            ("spec", spec, msgspec.NODEFAULT if required else None),
        ],
        bases=(SettingsStruct,),
        frozen=True,
        kw_only=True,
    )
    found = check_struct(Field(source, "", document), file, problems)
    stated: dict[str, Any] = found.get("spec", {})
    return stated
