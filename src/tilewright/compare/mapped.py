"""A plan made with a mapping as something to compare: its layers, their cores and cuts."""

from collections.abc import Sequence
from typing import Any, cast

from tilewright.compare.side import PlanSide
from tilewright.plan.plan import GroupPlan, Plan
from tilewright.tiling.grid import Split

_ASKED = ("mode", "final_write", "core_costs")


def mapped_side(name: str, told: dict[str, Any]) -> PlanSide:
    """The side of a summary that a plan on the cores of an accelerator wrote. Its layers run beside
    each other, so none of them has cycles of its own that add up to the latency."""
    cuts: dict[str, dict[str, Sequence[Sequence[int]]]] = told["cut"]
    layers = cast(dict[str, list[int]], told["allocation"])
    groups = tuple(_layer(layer, cores, cuts[layer]) for layer, cores in layers.items())
    traffic: dict[str, int] = told["traffic_bytes"]
    figures = {
        "model": told["model"],
        "machine": told["accelerator"],
        "objective": told["objective"],
        "latency_cycles": told["latency_cycles"],
        "lower_bound_cycles": told["bound_cycles"],
        "energy_pj": told["energy_pj"],
        "dram_read_bytes": traffic["read outside"],
        "dram_write_bytes": traffic["written outside"],
        "groups": len(groups),
        "tasks": told["tiles"] + told["transfers"],
    }
    return PlanSide(
        name,
        figures,
        Plan(str(told["model"]), str(told["accelerator"]), "", groups),
        (),
        {str(core["name"]): int(core["busy_cycles"]) for core in told["cores"]},
        {str(memory["name"]): int(memory["peak_bytes"]) for memory in told["memories"]},
        {key: str(told[key]) for key in _ASKED},
        mapped=True,
    )


def _layer(name: str, cores: list[int], cut: dict[str, Sequence[Sequence[int]]]) -> GroupPlan:
    """A layer with its cut; parts of the first dimensions go to the cores."""
    parts = [Split(int(axis), int(count)) for axis, count in (*cut["inter"], *cut["intra"])]
    names = tuple(f"core{number}" for number in dict.fromkeys(cores))
    return GroupPlan((name,), tuple(parts), 0 if cut["inter"] else None, cores=names)
