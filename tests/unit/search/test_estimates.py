"""Estimates against a plain reference: the tile of `cut_ops`, box by box, nothing remembered."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import prod

import pytest

from support.builder import GraphBuilder
from tilewright import api
from tilewright.cost.base import Copy
from tilewright.cost.from_graph import workload_of
from tilewright.errors import TilingError
from tilewright.frontend.normalize import normalize
from tilewright.geometry.box import Box, span_of
from tilewright.machine.load import load_machine
from tilewright.plan.plan import GroupPlan, Plan
from tilewright.planning import prepared
from tilewright.program.constants import channels_of, immediate, packs_of
from tilewright.program.layout import part
from tilewright.program.lowering import Lowering
from tilewright.program.metrics import metrics_of
from tilewright.program.timed import Timed
from tilewright.search.candidates.estimates import Estimate
from tilewright.search.candidates.network import Network
from tilewright.search.candidates.tile_costs import Dims
from tilewright.search.candidates.tiles import USABLE_SHARE, Tiler
from tilewright.search.candidates.unlike import soonest
from tilewright.tiling.cutting import cut_ops
from tilewright.tiling.grid import Cut, Split, dealt
from tilewright.tiling.group import GroupTiles, TiledOp, whole_tile

FIELDS = ("compute", "dma", "fill", "bytes", "least", "traffic", "energy", "halo")


class Reference:
    """Estimates as they are defined."""

    def __init__(self, tiler: Tiler) -> None:
        self.tiler, self.network, self.costs = tiler, tiler.network, tiler.costs
        self.packs = packs_of(tiler.graph, tiler.network.layouts)

    def estimate(
        self,
        ops: tuple[TiledOp, ...],
        exported: dict[str, bool],
        splits: tuple[Split, ...],
        core_split: int | None,
        resident: frozenset[str],
    ) -> Estimate | None:
        try:
            group = cut_ops(self.tiler.graph, ops, exported, splits, probe=True)
        except TilingError:
            return None
        tiles = prod(split.parts for split in splits)
        cores = self.tiler.cores if core_split is not None else 1
        turns = -(-tiles // cores)
        own = [s.parts // (cores if dim == core_split else 1) for dim, s in enumerate(splits)]
        innermost = max((dim for dim, parts in enumerate(own) if parts > 1), default=-1)
        zero = (0,) * len(splits)
        busy = {"matrix": 0.0, "vector": 0.0}
        energy = useful = 0.0
        for tiled in ops:
            tile = group.tile(tiled, zero)
            if tile is None:
                continue
            work = workload_of(tiled.spec, tiled.op, tile, self.network.dtype)
            whole = workload_of(tiled.spec, tiled.op, whole_tile(tiled), self.network.dtype)
            models = self.network.models
            either = tuple(models.either(core, whole) for core in self.costs.cores)
            ((kind, cycles, spent),) = self.costs.cost(work, either)
            finishing = tiled.spec.finishing(tiled.op)
            finished = finishing is not None and finishing.finish in self.network.machine.finishes
            if finished and busy["matrix"]:
                cycles = 0
            once = all(not driven(group.values[n].compute) for n in tiled.node.writes)
            times = 1 / turns if once and tiles > 1 else 1.0
            busy[kind] += cycles * times
            energy += spent * tiles * times
            shares = [
                tiled.op.result(k).size / max(1, box.size * tiles)
                for k, box in enumerate(tile.outputs)
                if box is not None
            ]
            useful += cycles * times * min(1.0, *shares)
        rows = [row for row in self.rows(group, ops, resident) if row[1]]
        loads = [(c, b, r, self.times(dims, splits, core_split), dims) for c, b, r, dims in rows]
        stores = list(self.stores(group, resident))
        both, stored = sum(busy.values()), sum(row[0] for row in stores)
        overlapped = min(busy.values()) if turns > 1 else 0.0
        first = sum(row[0] for row in loads)
        outer = sum(row[2] for row in (*loads, *stores))
        held = (2 if turns > 1 else 1) * outer
        held += self.inner(group) * (2 if overlapped else 1)
        fill = first + stored + (0.0 if turns > 1 else min(both, first))
        slow = [row for row in loads if innermost not in row[4]]
        if held > self.tiler.usable * USABLE_SHARE and slow and turns > 1:
            held -= sum(row[2] for row in slow)
            fill += sum(row[0] * row[3] for row in slow) / cores
        traffic = sum(row[1] * row[3] for row in loads) + sum(row[1] for row in stores) * tiles
        return Estimate(
            splits,
            core_split,
            replicated=False,
            compute=turns * (both - overlapped) + overlapped,
            dma=sum(row[0] * row[3] for row in loads) + stored * tiles,
            fill=fill,
            bytes=held,
            least=min(held, outer + self.inner(group)),
            traffic=int(traffic),
            energy=energy + traffic * self.tiler.main_pj,
            halo=1.0 - useful / both if both else 0.0,
        )

    def rows(
        self, group: GroupTiles, ops: tuple[TiledOp, ...], resident: frozenset[str]
    ) -> Iterator[tuple[float, int, int, Dims]]:
        """Loads: cycles, bytes, room, and what drives them."""
        zero = (0,) * len(group.splits)
        for name, cuts in group.inputs.items():
            if name not in resident:
                yield *self.copy(name, box_of(cuts)), tuple(cut.dim for cut in cuts)
        for tiled in ops:
            tile = group.tile(tiled, zero)
            if tile is None:
                continue
            cuts = group.values[next(iter(tiled.node.writes))].compute
            boxes = {n: tile.input_box(i) for i, n in enumerate(tiled.node.inputs)}
            there = {name: box for name, box in boxes.items() if box is not None}
            for number, name in enumerate(tiled.node.inputs):
                rules = tiled.access[0].inputs[number]
                if name not in self.tiler.graph.constants or name not in there or rules is None:
                    continue
                if immediate(self.tiler.graph, name) is not None:
                    continue
                dims = tuple(cuts[rule.axis].dim for rule in rules if rule.axis is not None)
                pack = self.packs.get(name)
                channels = None
                if pack is not None:
                    both = (there[pack.weights], there[pack.bias])
                    channels = channels_of(pack, *map(span_of, both))
                if pack is None or channels is None:
                    yield *self.copy(name, there[name]), dims
                elif name == pack.weights:
                    size = pack.bytes(channels[1])
                    yield self.costs.cycles(Copy(size)), size, size, dims

    def stores(
        self, group: GroupTiles, resident: frozenset[str]
    ) -> Iterator[tuple[float, int, int]]:
        zero = (0,) * len(group.splits)
        for name in group.outputs:
            box = group.values[name].write_box(zero)
            if box is not None and not box.empty and name not in resident:
                cycles, size, _ = self.copy(name, box)
                yield cycles, size, self.held(name, group.values[name].box(zero))

    def copy(self, name: str, box: Box) -> tuple[float, int, int]:
        view = self.costs.view(name)
        copy = Copy(*part(view, Box.whole(view.shape), box).runs())
        return self.costs.cycles(copy), copy.bytes, self.held(name, box)

    def held(self, name: str, box: Box) -> int:
        return self.network.layouts.bytes(name, box.shape, aligned=True)

    def times(self, dims: Dims, splits: tuple[Split, ...], core_split: int | None) -> float:
        """Tiles at which some core has to load what it does not have from the tile before."""
        among = {} if core_split is None else {core_split: self.tiler.cores}
        for dim, split in enumerate(splits):
            if split.crossed and core_split is not None:
                among = {core_split: splits[core_split].parts, dim: split.parts}
        takers = [among.get(dim, 1) for dim in range(len(splits))]
        rows = [dealt(s.parts, (1,) * n) for s, n in zip(splits, takers, strict=True)]
        loads: list[tuple[int, tuple[int, ...]]] = []
        for own in product(*rows):
            before = None
            for step, position in enumerate(product(*own)):
                part = tuple(position[dim] for dim in dims if dim is not None)
                loads += [(step, part)] if part != before else []
                before = part
        return float(len(set(loads)) if self.costs.route.multicast else len(loads))

    def inner(self, group: GroupTiles) -> int:
        zero = (0,) * len(group.splits)
        last = {name: n for n, tiled in enumerate(group.ops) for name in tiled.node.inputs}
        live: dict[str, int] = {}
        peak = 0
        for number, tiled in enumerate(group.ops):
            for name in tiled.node.writes:
                if name in group.values and name not in set(group.outputs):
                    live[name] = self.held(name, group.values[name].box(zero))
            peak = max(peak, sum(live.values()))
            live = {n: size for n, size in live.items() if last.get(n, number) > number}
        return peak


def driven(cuts: tuple[Cut, ...]) -> bool:
    return any(cut.dim is not None for cut in cuts)


def box_of(cuts: tuple[Cut, ...]) -> Box:
    return Box(tuple(cut.intervals[0] for cut in cuts))


def groups_of(network: Network) -> Iterator[list[int]]:
    """Single units and short chains, over the whole network."""
    for unit in network.units[::3]:
        members = [unit.number]
        while members and network.on_cores(members[-1]) and len(members) < 5:
            if network.units[members[-1]].place.value != "cores":
                break
            yield list(members)
            near = range(members[-1] + 1, min(members[-1] + 5, len(network.units)))
            after = [k for k in near if network.predecessors[k] >> members[-1] & 1]
            members = [*members, after[0]] if after else []


@pytest.mark.parametrize("model", ["resnet18", "mobilenet_v2", "sd15_down_block", "fsrcnn"])
@pytest.mark.parametrize("machine", ["npu-2.7"])
def test_estimates_are_those_of_the_plain_reference(model: str, machine: str) -> None:
    graph, target = normalize(api.load(model).graph), load_machine(machine)
    network = Network(graph, target, target.dtype)
    assert network.units
    tiler = Tiler(network)
    reference = Reference(tiler)
    compared = 0
    for number, members in enumerate(groups_of(network)):
        nodes = sorted(n for unit in members for n in network.units[unit].nodes)
        tiled = [t for unit in members for t in network.ops(unit)]
        ops = tuple(sorted(tiled, key=lambda t: graph.index[t.node.name]))
        exported = tiler.exported(nodes)
        residents = (frozenset[str](), frozenset(ops[0].node.inputs[:1]))
        for splits, core_split in list(tiler.ways.alone(ops[-1].access[0]))[number % 11 :: 71]:
            for resident in residents:
                mine = tiler.estimate(ops, exported, splits, core_split, resident=resident)
                other = reference.estimate(ops, exported, splits, core_split, resident)
                assert (mine is None) == (other is None), (nodes, splits)
                if mine is None or other is None:
                    continue
                compared += 1
                for field in FIELDS:
                    value = pytest.approx(getattr(other, field), rel=1e-9, abs=1e-6)
                    assert getattr(mine, field) == value, (field, nodes, splits)
    assert compared > 30


def test_groups_that_join_channels_are_not_cut_along_them() -> None:
    """The first tile would need all filters of one input, the second none."""
    b = GraphBuilder()
    x = b.input(1, 64, 16, 16)
    y = b.add("Conv", x, b.weight(64, 64, 3, 3), pads=[1, 1, 1, 1])
    b.add("Sigmoid", b.add("Concat", y, x, axis=1))
    machine = load_machine("npu-2.7")
    network = Network(prepared(b.graph(), machine, "fp16").graph, machine, "fp16")
    tiler = Tiler(network)
    units = [u.number for u in network.units if network.on_cores(u.number)]
    nodes = sorted(n for u in units for n in network.units[u].nodes)
    ops = tuple(op for u in units for op in network.ops(u))
    options = tiler.fused(ops, tiler.exported(nodes), tiler.usable)
    assert options and any(op.node.kind == "Concat" for op in ops)
    assert all(split.axis != 1 for option in options for split in option.splits)


def test_which_core_comes_first_does_not_decide_what_folds() -> None:
    machine = load_machine("mixed-cores")
    graph = normalize(api.load("resnet18").graph)
    turned = replace(machine, cores=machine.cores[::-1])
    units = [
        [unit.nodes for unit in Network(graph, each, machine.dtype).units]
        for each in (machine, turned)
    ]
    assert units[0] == units[1]


def test_a_cut_is_estimated_for_the_cores_that_it_is_for() -> None:
    """Where nothing is divided, the first of them has all tiles; divided evenly, the slowest takes
    longest; dealt by how fast each is, no kind of cores alone takes less."""
    machine = load_machine("mixed-cores")
    graph = prepared(api.load("four_convs").graph, machine, machine.dtype).graph
    network = Network(graph, machine, machine.dtype)
    tiler, conv = Tiler(network), network.ops(0)
    exported, cut = tiler.exported(network.units[0].nodes), (Split(2, 48),)
    probe = tiler.probes.of(conv, exported)
    alone: list[float] = []
    for alike in network.models.core_classes:
        names = tuple(core.name for core in alike)
        some = tiler.on(names)
        own = some.estimate(conv, exported, cut, None)
        assert own is not None and own.plan(("conv",)).cores == names
        assert some.usable == alike[0].memory.usable and some.cores == len(alike)
        alone.append(own.compute)
    whole = tiler.estimate(conv, exported, cut, None)
    assert whole is not None and whole.plan(("conv",)).cores == ()
    assert whole.compute == alone[0]
    even, best = (tiler.probed(probe, cut, 0, shares=shares) for shares in ((), None))
    assert even is not None and best is not None
    assert even.compute == pytest.approx(max(alone) / len(machine.cores))
    assert best.compute < min(min(alone), even.compute)
    plan = best.plan(("conv",))
    again = tiler.on(plan.cores).probed(probe, cut, 0, shares=plan.shares)
    assert again is not None and again.compute == best.compute
    assert tiler.on(()) is tiler


@pytest.mark.parametrize("parts", range(1, 12))
@pytest.mark.parametrize("times", [(1.0, 3.0), (2.0, 5.0, 3.0), (4.0, 4.0, 1.0)])
def test_no_way_to_deal_parts_ends_sooner(parts: int, times: tuple[float, ...]) -> None:
    counts = soonest(parts, times)
    assert sum(counts) == parts
    ways = (way for way in product(range(parts + 1), repeat=len(times)) if sum(way) == parts)
    least = min(max(n * t for n, t in zip(way, times, strict=True)) for way in ways)
    assert max(n * t for n, t in zip(counts, times, strict=True)) == least


@pytest.mark.parametrize(
    ("splits", "core_split"),
    [
        ((Split(1, 24), Split(0, 2)), 1),  # each core has one part of the rows: it stays
        ((Split(0, 4), Split(1, 6)), 1),
        ((Split(1, 6), Split(0, 12)), 1),
        ((Split(0, 3), Split(1, 12)), 0),  # fewer parts than cores, weights for all of them
    ],
)
def test_loads_are_counted_as_the_program_makes_them(
    splits: tuple[Split, ...], core_split: int
) -> None:
    b = GraphBuilder()
    b.add("MatMul", b.input(48, 192), b.weight(192, 384))
    machine = load_machine("npu-4.0").with_memory(256 * 1024)
    graph = prepared(b.graph(), machine, machine.dtype).graph
    network = Network(graph, machine, machine.dtype)
    tiler = Tiler(network)
    ops, nodes = network.ops(0), network.units[0].nodes
    estimate = tiler.estimate(ops, tiler.exported(nodes), splits, core_split)
    group = GroupPlan(network.names(nodes), splits, core_split)
    plan = Plan("product", machine.name, machine.dtype, (group,))
    found = Lowering(graph, machine, machine.dtype).timed(plan)
    assert estimate is not None and isinstance(found, Timed)
    assert estimate.traffic == metrics_of(found).dram_bytes


@pytest.mark.parametrize("same", [True, False])
def test_weights_that_several_operators_read_are_loaded_once(same: bool) -> None:
    """Two products of one group: a tile loads what both read for both."""
    b = GraphBuilder()
    weights = b.weight(192, 384)
    for other in (weights, weights if same else b.weight(192, 384)):
        b.add("MatMul", b.input(48, 192), other)
    machine = load_machine("npu-2.7")
    graph = prepared(b.graph(), machine, machine.dtype).graph
    network = Network(graph, machine, machine.dtype)
    tiler, splits = Tiler(network), (Split(1, 8),)
    nodes = tuple(node for unit in network.units for node in unit.nodes)
    ops = tuple(op for unit in network.units for op in network.ops(unit.number))
    estimate = tiler.estimate(ops, tiler.exported(nodes), splits, 0)
    group = GroupPlan(network.names(nodes), splits, 0)
    plan = Plan("products", machine.name, machine.dtype, (group,))
    found = Lowering(graph, machine, machine.dtype).timed(plan)
    assert estimate is not None and isinstance(found, Timed)
    loaded = sum(constant.type.size for constant in graph.constants.values()) * 2
    assert loaded == 192 * 384 * 2 * (1 if same else 2)
    assert loaded < metrics_of(found).dram_bytes == estimate.traffic


@pytest.mark.parametrize("model", ["mobilenet_v2", "vit_b16"])
def test_what_estimates_share_changes_none_of_them(model: str) -> None:
    """Groups that look alike, values that stay or do not, and alike cores share what is known."""
    machine = load_machine("npu-2.7")
    graph = prepared(api.load(model).graph, machine, machine.dtype).graph
    network = Network(graph, machine, machine.dtype)
    assert network.units
    shared, half = Tiler(network), (machine.cores[0].name,)
    for number, members in enumerate(groups_of(network)):
        nodes = sorted(n for unit in members for n in network.units[unit].nodes)
        ops = network.joined_ops(members)
        exported = shared.exported(nodes)
        names = [name for tiled in ops for name in (*tiled.node.inputs, *tiled.node.outputs)]
        for splits, core_split in list(shared.ways.alone(ops[-1].access[0]))[number % 23 :: 211]:
            for kept in (names[:0], names[:1], names[-1:], names):
                for cores in ((), half):
                    fresh = Tiler(network).on(cores)
                    known = [
                        tiler.estimate(ops, exported, splits, core_split, resident=frozenset(kept))
                        for tiler in (shared.on(cores), fresh)
                    ]
                    assert known[0] == known[1], (nodes, splits, kept, cores)
    assert shared.on(half).costs is shared.costs
