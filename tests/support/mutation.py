"""YAML files as a careless or curious person would write them: sound ones with a few values changed
to what nobody expects, or a few characters of the text."""

import re
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from random import Random
from typing import Any

import yaml

from tilewright.machine.load import list_machines, machine_tree

Keys = tuple[Any, ...]
NUMBERS: tuple[Any, ...] = (
    float("nan"),
    float("inf"),
    -float("inf"),
    0,
    -1,
    0.5,
    1,
    3,
    7,
    1000,
    10**6,
    10**20,
    2**31,
    2**63,
    10**400,
    1e-300,
    1e99,
    -0.0,
)
OTHERS: tuple[Any, ...] = (
    None,
    True,
    "",
    "abc",
    "*",
    "core*",
    "1e99",
    "NaN",
    "-1",
    "0x10",
    [],
    {},
    [1, 2],
    {"a": 1},
    ["abc"],
    "a\nb",
    "\u00e9\u0000"[:1],
    "x" * 500,
    "int4",
    "fp32",
    "2024-01-01",
)
FACTORS = (1e-3, 0.1, 0.5, 0.9, 1.5, 2, 3, 10, 100, 1e4)  # what a machine may well have
UNITS = (
    " B/cycle",
    " GB/s",
    " cycles",
    " ns",
    " s",
    " MHz",
    " GHz",
    " KiB",
    " MiB",
    " GiB",
    " B",
    "",
)
_WITH_UNIT = re.compile(r"([0-9.]+) ?([A-Za-z/]+)")


def mutated_machine(random: Random) -> tuple[str, str]:
    """The text of a machine file, and what was done to the shipped one it was made from."""
    name = random.choice(list_machines())
    text, done = mutated(_shipped(name), random)
    return text, f"{name}; {done}"


def mutated(tree: Any, random: Random) -> tuple[str, str]:
    """The text of a file with a few changes, and what these were."""
    tree = deepcopy(tree)
    done: list[str] = []
    if random.random() < 0.1:
        text, change = misspelt(_text(tree), random)
        return text, change
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        places = list(_places(tree, ()))
        if places:
            done.append(_change(tree, random.choice(places), random))
    return _text(tree), "; ".join(done)


def _text(tree: Any) -> str:
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return yaml.dump(tree, Dumper=dumper, sort_keys=False, allow_unicode=True)


def misspelt(text: str, random: Random) -> tuple[str, str]:
    """Lines taken away, doubled or moved in, or characters that do not belong there."""
    lines = text.splitlines()
    number = random.randrange(len(lines))
    line = lines[number]
    place = random.randrange(len(line) + 1)
    changed = random.choice(
        (
            [],
            [line, line],
            [f"  {line}"],
            [line[1:]],
            [line[:place] + random.choice(":{}[]-#&*!|>'\"%@`\t0.,") + line[place:]],
            [line[:place]],
        )
    )
    lines[number : number + 1] = changed
    return "\n".join(lines) + "\n", f"line {number + 1}: {line!r} -> {changed!r}"


@cache
def _shipped(name: str) -> Any:
    return machine_tree(name)


def _places(tree: Any, keys: Keys) -> Iterator[Keys]:
    """Every key and item, but for sources: those are only text."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in items:
        if key in ("source", "sources") and keys:
            continue
        yield (*keys, key)
        if isinstance(value, dict | list):
            yield from _places(value, (*keys, key))


def _leaves(tree: Any) -> Iterator[Any]:
    if isinstance(tree, dict | list):
        for value in tree.values() if isinstance(tree, dict) else tree:
            yield from _leaves(value)
    else:
        yield tree


def _change(tree: Any, keys: Keys, random: Random) -> str:
    parent = tree
    for key in keys[:-1]:
        parent = parent[key]
    key, old = keys[-1], parent[keys[-1]]
    where = ".".join(map(str, keys))
    kind = random.random()
    if kind < 0.1:
        del parent[key]
        return f"{where} deleted"
    if kind < 0.15 and isinstance(parent, dict):
        parent[random.choice(("colour", "mac", f"{key}0", "", "a b", "*"))] = parent.pop(key)
        return f"{where} renamed"
    if kind < 0.2 and isinstance(parent, dict):
        other = random.choice(list(parent))
        parent[key] = deepcopy(parent[other])
        return f"{where} = {other}"
    words = [word for word in _leaves(tree) if isinstance(word, str)]
    if isinstance(old, str) and random.random() < 0.4:
        new = random.choice(words)  # what may well stand elsewhere
    else:
        new = _value(old, random)
    parent[key] = new
    return f"{where}: {str(old)[:40]} -> {str(new)[:40]}"


def _value(old: Any, random: Random) -> Any:
    """Something else: mostly of the same kind, with the unit it had or another one."""
    unit = _WITH_UNIT.fullmatch(old) if isinstance(old, str) else None
    kind = random.random()
    if unit is not None and kind < 0.7:
        suffix = f" {unit.group(2)}" if kind < 0.5 else random.choice(UNITS)
        sound = float(unit.group(1))
        number = random.choice((*NUMBERS, "1e99", 1e-9, *(sound * by for by in FACTORS)))
        return f"{number}{suffix}"
    if isinstance(old, bool):
        return deepcopy(random.choice((not old, *OTHERS)))
    if isinstance(old, int | float) and kind < 0.8:
        scaled = [type(old)(min(abs(old), 1e30) * by) for by in FACTORS if old == old]
        return random.choice((*NUMBERS, *scaled, *scaled, -old))
    return deepcopy(random.choice((*NUMBERS, *OTHERS)))  # to be changed in turn
