"""What was understood of an accelerator file, for `tilewright show machines FILE`."""

from typing import Any

from tilewright.manycore.fabric import Fabric, fabric_of
from tilewright.manycore.hardware import Accelerator, CoreKind
from tilewright.units import format_bytes


def accelerator_text(accelerator: Accelerator) -> str:
    """Cores with their arrays and memories, wires, and ways to the outside."""
    fabric = fabric_of(accelerator)
    lines = [f"{accelerator.name}: {len(accelerator.cores)} cores, Stream accelerator file"]
    for number, core in accelerator.cores:
        lines.append(f"core {number}: {core.name}, {_array(core)}, {core.unit_pj} pJ per operation")
        for position, level in enumerate(core.levels):
            top = position in core.tops
            ports = ", ".join(
                f"{port.name} {port.bandwidth} b/cycle ({_serves(port.serves)})"
                for port in level.ports
            )
            lines.append(
                f"  {level.name}: {_size(level.size)} for {', '.join(level.operands)}, "
                f"{_shared(core, level.serves)}, read {level.read_pj} write {level.write_pj} pJ; "
                f"{ports}" + ("; other cores reach it" if top else "")
            )
    outside = fabric.places[0]
    lines.append(
        f"outside (core {accelerator.outside_id}): {outside.name}, {_size(outside.bits)}, "
        f"{outside.read_bits} b/cycle"
    )
    for wire in accelerator.wires:
        kind = "bus, to several cores at once" if wire.bus else "link, both ways at once"
        ends = ", ".join(
            "outside" if core == accelerator.outside_id else f"core {core}" for core in wire.cores
        )
        lines.append(f"{wire.name}: {kind}, {wire.bandwidth} b/cycle: {ends}")
    lines += [_reach(fabric, position) for position in range(len(fabric.cores))]
    return "\n".join((*lines, *accelerator.notes)) + "\n"


def _array(core: CoreKind) -> str:
    array = " x ".join(f"{name} {size}" for name, size in core.dimensions)
    if core.dataflow is None:
        return f"array {array}, the best unrolling is found for every tile"
    given = "; ".join(
        f"{name}: {', '.join(f'{loop} {factor}' for loop, factor in loops)}"
        for name, loops in core.dataflow
    )
    return f"array {array}, unrolled as given ({given})"


def _serves(pairs: frozenset[tuple[str, str]]) -> str:
    return " ".join(sorted(f"{operand}.{way}" for operand, way in pairs))


def _shared(core: CoreKind, serves: frozenset[str]) -> str:
    if not serves:
        return "one per unit"
    if serves == frozenset(name for name, _ in core.dimensions):
        return "one for all units"
    return f"one for the units along {', '.join(sorted(serves))}"


def _size(bits: int) -> str:
    return format_bytes(bits // 8) if bits >= 8 else f"{bits} bits"


def _reach(fabric: Fabric, position: int) -> str:
    """How fast a core reads from the outside, or through whom."""
    number, place = fabric.cores[position][0], fabric.roles[position][0]
    rates = [way.bits for way in fabric.ways if (way.source, way.target) == (0, place)]
    if rates:
        return f"core {number} reads {max(rates)} b/cycle from the outside"
    hop = int(fabric.next_hop[0, place])
    return f"core {number} reads from the outside through {fabric.places[hop].name}"


def accelerator_json(accelerator: Accelerator) -> dict[str, Any]:
    """The same for a program."""
    fabric = fabric_of(accelerator)
    return {
        "name": accelerator.name,
        "cores": [
            {
                "number": number,
                "name": core.name,
                "array": dict(core.dimensions),
                "dataflow": None
                if core.dataflow is None
                else {name: dict(loops) for name, loops in core.dataflow},
                "memories": [
                    {"name": level.name, "bits": level.size, "operands": list(level.operands)}
                    for level in core.levels
                ],
            }
            for number, core in accelerator.cores
        ],
        "outside": {"core": accelerator.outside_id, "bits": fabric.places[0].bits},
        "wires": [
            {
                "name": wire.name,
                "kind": "bus" if wire.bus else "link",
                "cores": list(wire.cores),
                "bits_per_cycle": wire.bandwidth,
            }
            for wire in accelerator.wires
        ],
        "notes": list(accelerator.notes),
    }
