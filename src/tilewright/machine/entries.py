"""Parts of a YAML file that have to be mappings or lists; what is not is a fault of its key."""

from collections.abc import Mapping
from typing import Any, cast

from tilewright.machine.faults import Keys, key_fault


def mapping_at(value: object, where: Keys) -> Mapping[str, Any]:
    """A mapping of names."""
    if not isinstance(value, dict) or not all(isinstance(k, str) for k in cast(Any, value)):
        raise key_fault(where, "has to be a mapping of names")
    return cast(Mapping[str, Any], value)


def list_at(value: Mapping[str, Any], key: str, where: Keys = ()) -> list[Any]:
    """The list below a key; an empty one where there is none."""
    found: Any = value.get(key)
    if found is not None and not isinstance(found, list):
        raise key_fault((*where, key), "has to be a list")
    return cast(list[Any], found or [])
