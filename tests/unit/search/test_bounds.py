"""Lower bounds: below every plan that runs, equal to the formulas of docs/bounds.md, and not so
low that they say nothing."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, permutations, product
from pathlib import Path
from random import Random
from time import process_time

import pytest

from support.builder import GraphBuilder
from support.random_plans import ideal
from support.unlike import core, unlike_cores
from tilewright import api
from tilewright.cost.array import ArrayModel
from tilewright.cost.base import WorkKind, Workload, matrix_product
from tilewright.cost.models import CostModels
from tilewright.errors import TilewrightError
from tilewright.frontend.normalize import normalize
from tilewright.graph.graph import Graph
from tilewright.machine.load import list_machines, load_machine
from tilewright.machine.machine import Machine
from tilewright.plan.plan import GroupPlan, Place, Plan
from tilewright.program.account import Account, account_of
from tilewright.program.lower import lowered
from tilewright.search.bounds.bounds import bounds_of
from tilewright.search.bounds.floors import Floors
from tilewright.search.bounds.needs import ElementNeeds
from tilewright.search.candidates import ways
from tilewright.search.candidates.layers import layer_by_layer
from tilewright.search.effort import Effort
from tilewright.search.fusion import Fusion
from tilewright.tiling.grid import Halo, Split

RATE = 270 / 13  # 27 GB/s at 1.3 GHz
LATENCY = 1243
KINDS = (
    WorkKind.CONV,
    WorkKind.FIRST_CONV,
    WorkKind.DEPTHWISE,
    WorkKind.POOL,
    WorkKind.ELTWISE,
    WorkKind.VECTOR,
)


# The floor of a piece of work ------------------------------------------------------------------


def cuts(extent: int, random: Random) -> list[tuple[int, int]]:
    """A random cover of an extent, with gaps nowhere and overlaps now and then."""
    points = sorted({0, extent, *(random.randrange(extent) for _ in range(random.randrange(4)))})
    pairs = list(pairwise(points))
    return [(max(0, a - random.choice((0, 0, 1))), b) for a, b in pairs]


def read(start: int, stop: int, kernel: int, stride: int, extent: int) -> int:
    """Input positions of output positions, the padding being half the kernel."""
    before = kernel // 2
    low, high = start * stride - before, (stop - 1) * stride + kernel - before
    return max(0, min(extent, high) - max(0, low))


def random_work(kind: WorkKind, random: Random) -> Workload:
    kernel = random.choice((1, 1, 2, 3, 5)) if kind not in (WorkKind.ELTWISE,) else 1
    stride = random.choice((1, 1, 2, 3)) if kernel > 1 or random.random() < 0.3 else 1
    if kind in (WorkKind.ELTWISE, WorkKind.VECTOR):
        kernel = stride = 1
    height, width = random.choice((1, 3, 7, 14, 30)), random.choice((1, 2, 7, 16, 33))
    channels = random.choice((1, 3, 16, 24, 40, 130))
    groups = random.choice((1, 1, 4)) if kind is WorkKind.CONV else 1
    inner = {WorkKind.CONV: 4 * random.choice((1, 4, 9, 33)), WorkKind.FIRST_CONV: 3}
    return Workload(
        kind,
        "fp16",
        out_channels=channels * groups,
        in_channels=inner.get(kind, channels),
        out_height=height,
        out_width=width,
        in_height=read(0, height, kernel, stride, height * stride),
        in_width=read(0, width, kernel, stride, width * stride),
        kernel_height=kernel,
        kernel_width=kernel,
        stride_height=stride,
        stride_width=stride,
        groups=groups,
        batch=random.choice((1, 1, 2)),
        operator=random.choice(("add", "softmax")) if kind is WorkKind.VECTOR else "",
    )


def tiles_of(work: Workload, random: Random) -> Iterator[Workload]:
    """A grid of tiles with their halos; groups stay whole."""
    grain = work.out_channels // work.groups if work.groups > 1 else 1
    kernel, stride = work.kernel_height, work.stride_height
    tall, wide = work.out_height * stride, work.out_width * stride
    for top, bottom in cuts(work.out_height, random):
        for left, right in cuts(work.out_width, random):
            for first, last in cuts(work.out_channels // grain, random):
                channels = (last - first) * grain
                mixing = work.kind in (WorkKind.CONV, WorkKind.FIRST_CONV)
                inner = work.in_channels if mixing else channels
                if work.groups > 1:
                    inner = work.in_channels // work.groups * (last - first)
                yield work._replace(
                    out_height=bottom - top,
                    out_width=right - left,
                    out_channels=channels,
                    in_channels=inner,
                    groups=last - first if work.groups > 1 else 1,
                    in_height=read(top, bottom, kernel, stride, tall),
                    in_width=read(left, right, kernel, stride, wide),
                )


def arrays(*channels: int) -> Machine:
    """Cores whose arrays take these numbers of channels at once, and one column, two, ..."""
    cores = {f"core{n}": core(each, width=1 + n) for n, each in enumerate(channels)}
    return unlike_cores(**cores)


def viewed(work: Workload) -> Iterator[Workload]:
    """The work, and where it is pointwise all shapes of its positions."""
    yield work
    positions = work.out_height * work.out_width
    if work.kind is WorkKind.CONV and work.taps == work.stride_height == work.groups == 1:
        yield from (work.as_view(positions // w, w) for w in (1, 2, 4, 8, 16) if positions % w == 0)


@pytest.mark.parametrize(
    "machine", [load_machine(n) for n in list_machines()], ids=lambda m: m.name
)
def test_no_tiling_is_cheaper_than_the_floor(machine: Machine) -> None:
    random = Random(3)
    models = CostModels(machine)
    engines = {models.model(e): e for e in machine.engines}
    for _ in range(60):
        for kind in KINDS:
            work = random_work(kind, random)
            tiles = list(tiles_of(work, random))
            for model in engines:
                if model.supports(work):
                    spent = sum(
                        min(model.cost(v).cycles for v in (*viewed(t), model.seen(t)))
                        for t in tiles
                    )
                    assert model.floor(work) <= spent + 1e-3, (work, tiles)


def parts_of(work: Workload) -> Iterator[tuple[Workload, Workload]]:
    """All ways to part work in two, across its columns or its filters."""
    for column in range(1, work.out_width):
        yield (
            work._replace(out_width=column, in_width=column),
            work._replace(out_width=work.out_width - column, in_width=work.out_width - column),
        )
    for first in range(1, work.out_channels):
        rest = work.out_channels - first
        mixing = work.kind is WorkKind.CONV
        yield tuple(
            work._replace(out_channels=some, in_channels=work.in_channels if mixing else some)
            for some in (first, rest)
        )


@pytest.mark.parametrize("lanes", [(8, 16), (24, 16), (5, 16, 7), (16, 16)])
def test_no_way_to_share_work_among_kinds_of_engines_undercuts_a_price(
    lanes: tuple[int, ...],
) -> None:
    """Whoever takes the ragged end, at prices at which all kinds cost the same."""
    machine, graph = arrays(*lanes), chain(1, 4, 4)
    floors = Floors(graph, machine, machine.dtype, ElementNeeds(graph))
    found = 0
    for kind, wide, deep in product((WorkKind.CONV, WorkKind.DEPTHWISE), (1, 4, 7), (16, 17, 33)):
        inner = 16 if kind is WorkKind.CONV else deep
        work = Workload(kind, "int8", deep, inner, 3, wide, 3, wide, 1, 1)
        able = [model for model in floors.kinds if model.supports(work)]
        for way in floors.takes(work, 1, able):
            takes = dict(zip(floors.kinds, way, strict=True))
            for parts, (one, other) in product(parts_of(work), permutations(able, 2)):
                share = one.cost(parts[0]).cycles / takes[one]
                assert share + other.cost(parts[1]).cycles / takes[other] >= 1 - 1e-9, (work, way)
                found += 1
    assert found > 1000


def test_engines_that_differ_are_not_counted_as_the_fastest() -> None:
    """A core four times as fast as each of two others does two thirds of the work."""
    graph, large = chain(3, 32, 32), core(16)
    alone = bounds_of(graph, unlike_cores(large=large), "int8").matrix
    found = bounds_of(graph, unlike_cores(large=large, small=core(8, count=2)), "int8").matrix
    assert 0.63 * alone < found < 0.7 * alone


def test_the_floor_of_aligned_work_is_nearly_its_cost() -> None:
    machine = load_machine("npu-2.7")
    model = CostModels(machine).model(machine.engines[0])
    ragged = Workload(WorkKind.CONV, "fp16", 512, 512, 7, 7, 7, 7, 3, 3)
    assert model.floor(ragged) > 0.95 * model.cost(ragged).cycles  # 7x7 costs as 8x8
    pointwise = ragged._replace(kernel_height=1, kernel_width=1)
    assert model.floor(pointwise) > 0.9 * model.cost(pointwise).cycles
    narrow = Workload(WorkKind.CONV, "fp16", 4, 56, 540, 960, 544, 964, 5, 5)
    assert model.floor(narrow) > 0.99 * model.cost(narrow).cycles  # four filters fill no block


# Networks --------------------------------------------------------------------------------------


def conv(b: GraphBuilder, x: str, channels: int, kernel: int = 3, **more: object) -> str:
    groups = int(str(more.get("group", 1)))
    weight = b.weight(channels, b.shape(x)[1] // groups, kernel, kernel)
    pads = [kernel // 2] * 4
    return b.add("Conv", x, weight, b.weight(channels), pads=pads, **more)


def chain(depth: int, channels: int, size: int) -> Graph:
    b = GraphBuilder()
    x = b.input(1, channels, size, size)
    for _ in range(depth):
        x = conv(b, x, channels)
    return b.graph()


def random_net(random: Random) -> Graph:
    """A few operators of all sorts on images: branches, crops, holes, and a head."""
    b = GraphBuilder(seed=random.randrange(99))
    x = b.input(1, random.choice((3, 16)), random.choice((12, 16)), random.choice((12, 17)))
    values = [conv(b, x, 16)]
    for _ in range(random.randrange(3, 9)):
        x = random.choice(values[-2:])
        size = b.shape(x)[2]
        kind = random.choice(
            (
                "conv",
                "conv",
                "depthwise",
                "point",
                "add",
                "pool",
                "relu",
                "crop",
                "concat",
                "split",
                "scale",
                "softmax",
                "up",
            )
        )
        if kind == "conv":
            x = conv(b, x, random.choice((16, 40)), strides=[1, 1])
        elif kind == "depthwise":
            x = conv(b, x, b.shape(x)[1], group=b.shape(x)[1])
        elif kind == "point":
            stride = random.choice((1, 1, 2)) if size > 4 else 1
            x = conv(b, x, random.choice((16, 48)), 1, strides=[stride, stride])
        elif kind == "add":
            same = [v for v in values if b.shape(v) == b.shape(x)]
            x = b.add("Add", x, random.choice(same))
        elif kind == "pool" and size > 4:
            window = random.choice((1, 2, 3))
            x = b.add("MaxPool", x, kernel_shape=[window] * 2, strides=[2, 2], pads=[0, 0, 0, 0])
        elif kind == "crop" and size > 4:
            ends = [b.constant([v], "int64") for v in (1, size - 1, random.choice((2, 3)))]
            x = b.add("Slice", x, *ends)
        elif kind == "concat":
            same = [v for v in values if b.shape(v)[2:] == b.shape(x)[2:]]
            x = b.add("Concat", x, random.choice(same), axis=1)
        elif kind == "split" and b.shape(x)[1] % 2 == 0:
            x = b.add("Split", x, axis=1, outputs=2, num_outputs=2)
            x = b.add("Add", x, conv(b, f"{x}.1", b.shape(x)[1]))
        elif kind == "scale":
            x = b.add("Mul", x, b.weight(1, b.shape(x)[1], 1, 1))
        elif kind == "softmax":
            x = b.add("Softmax", x, axis=random.choice((1, 3)))
        elif kind == "up" and size < 10:
            scales = b.constant([1, 1, 2, 2], "float32")
            x = b.add(
                "Resize",
                x,
                "",
                scales,
                mode="nearest",
                coordinate_transformation_mode="asymmetric",
                nearest_mode="floor",
            )
        else:
            x = b.add("Relu", x)
        values.append(x)
    if random.random() < 0.5:
        x = b.add("GlobalAveragePool", x)
        x = b.add("Flatten", x)
        x = b.add("Gemm", x, b.weight(b.shape(x)[1], 24), b.weight(24))
        x = b.add("MatMul", x, b.weight(24, 32))
    return b.graph()


def encoder(random: Random) -> Graph:
    """Attention with a joint projection, and what follows it."""
    b = GraphBuilder()
    width, heads, rows = 32, 2, random.choice((8, 20))
    x = b.input(1, rows, width)
    normal = b.add("LayerNormalization", x, b.weight(width), b.weight(width), axis=-1)
    joint = b.add("MatMul", normal, b.weight(width, 3 * width))
    first = b.add("Split", joint, axis=2, outputs=3, num_outputs=3)
    shape = b.constant([1, rows, heads, width // heads], "int64")
    q, k, v = (b.add("Reshape", part, shape) for part in (first, f"{first}.1", f"{first}.2"))
    q, v = (b.add("Transpose", part, perm=[0, 2, 1, 3]) for part in (q, v))
    scores = b.add("MatMul", q, b.add("Transpose", k, perm=[0, 2, 3, 1]))
    mixed = b.add("MatMul", b.add("Softmax", scores, axis=-1), v)
    mixed = b.add("Transpose", mixed, perm=[0, 2, 1, 3])
    flat = b.add("Reshape", mixed, b.constant([1, rows, width], "int64"))
    x = b.add("Add", x, b.add("MatMul", flat, b.weight(width, width)))
    wide = b.add("Tanh", b.add("MatMul", x, b.weight(width, 4 * width)), name="act")
    b.add("Add", x, b.add("MatMul", wide, b.weight(4 * width, width)))
    return b.graph()


# Plans -----------------------------------------------------------------------------------------


def random_plan(graph: Graph, base: Plan, random: Random) -> Plan:
    """Neighbouring groups joined, cut anywhere, with tensors that stay in the scratchpads."""
    groups: list[GroupPlan] = []
    waiting = list(base.groups)
    while waiting:
        if waiting[0].place is not Place.CORES:
            groups.append(waiting.pop(0))
            continue
        nodes: list[str] = []
        for _ in range(random.choice((1, 2, 3, 6))):
            if waiting and waiting[0].place is Place.CORES:
                nodes += waiting.pop(0).nodes
        shape = graph.types[graph.nodes[graph.index[nodes[-1]]].outputs[0]].shape
        axis, parts = random.randrange(len(shape)), random.choice((1, 2, 3, 4))
        halo = random.choice(list(Halo))
        splits = (Split(axis, min(parts, shape[axis]), halo),)
        groups.append(GroupPlan(tuple(nodes), splits, random.choice((0, None))))
    plan = replace(base, groups=tuple(groups))
    return replace(plan, resident=between(graph, plan)) if random.random() < 0.7 else plan


def between(graph: Graph, plan: Plan) -> tuple[str, ...]:
    """All tensors that only groups on cores make and read."""
    home = {name: k for k, group in enumerate(plan.groups) for name in group.nodes}
    found: list[str] = []
    for value, maker in graph.producer.items():
        users = [graph.nodes[i].name for i in graph.consumers.get(value, ())]
        places = {plan.groups[home[n]].place for n in (*users, graph.nodes[maker].name)}
        outside = {home[user] for user in users} - {home[graph.nodes[maker].name]}
        if places == {Place.CORES} and outside and value not in graph.outputs:
            found.append(value)
    return tuple(found)


def run(graph: Graph, machine: Machine, plan: Plan, without: tuple[str, ...] = ()) -> Account:
    placed = lowered(graph, machine, plan, frozenset(without), remedies=False)
    return account_of(placed, machine)


def gaps(
    graph: Graph, machine: Machine, dtype: str, random: Random, plans: int = 4
) -> Iterator[float]:
    """Latency over bound of the plan layer by layer and of random ones that can be lowered."""
    bounds = bounds_of(graph, machine, dtype)
    base = layer_by_layer(graph, machine, dtype, "test")
    for number in range(plans + 1):
        plan = random_plan(graph, base, random) if number else base
        for without in ((), ("pipelining", "prefetch")):
            try:
                account = run(graph, machine, plan, without)
            except (TilewrightError, KeyError):
                continue  # a random plan need not fit, nor be one that lowering knows
            moved = account.dram_read_bytes + account.dram_write_bytes
            assert bounds.compulsory_bytes <= moved, plan
            assert bounds.energy_pj <= account.energy_pj + 1, plan
            for name, cycles in bounds.parts:
                assert cycles <= account.latency_cycles, (name, bounds, plan)
            yield account.latency_cycles / max(1, bounds.cycles)


MACHINES = (
    ("npu-2.7", "fp16", None),
    ("npu-2.7", "int8", 40),
    ("mcu", "int8", 32),
    ("tpu-like", "bf16", None),
    ("three-core-bus", "int8", None),
)


def machine_of(name: str, kib: int | None) -> Machine:
    machine = load_machine(name)
    return machine if kib is None else machine.with_memory(kib * 1024)


@pytest.fixture
def few_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planner of layers tries few tiles: it is not what is tested."""
    monkeypatch.setattr(ways, "PARTS", (1, 2, 8))


@pytest.mark.parametrize(("name", "dtype", "kib"), MACHINES)
def test_bounds_are_below_plans_of_random_networks(
    name: str, dtype: str, kib: int | None, few_choices: None
) -> None:
    random = Random(f"{name} {kib}")
    machine = machine_of(name, kib)
    seen: list[float] = []
    for number in range(3):
        graph = encoder(random) if number == 0 else random_net(random)
        try:
            seen += gaps(graph, machine, dtype, random, plans=3)
        except TilewrightError:
            continue  # no tile fits the shrunken scratchpad
    assert len(seen) > 10


@pytest.mark.parametrize("seed", (0, 3, 4))
def test_bounds_are_below_plans_where_copies_start_at_once(seed: int, few_choices: None) -> None:
    random = Random(seed)
    base = load_machine("npu-2.7").with_memory(random.choice((64, 2000)) * 1024)
    seen: list[float] = []
    for number in range(3):
        graph = encoder(random) if number == 0 else random_net(random)
        machine = ideal(base, random.choice((0.5, 2, 8, 64)))
        try:
            seen += gaps(graph, machine, "fp16", random, plans=3)
        except TilewrightError:
            continue
    assert seen and min(seen) < 3


def test_weights_wait_in_a_memory_between(tmp_path: Path) -> None:
    """A shared memory takes what the scratchpads have no room for, long before it is read."""
    b = GraphBuilder()
    x = b.input(1, 64, 64, 64)
    for _ in range(4):
        x = conv(b, x, 64)
    x = b.add("Flatten", b.add("GlobalAveragePool", x))
    for wide in (1024, 3400):
        x = b.add("Gemm", x, b.weight(wide, b.shape(x)[1]), transB=1)
    file = tmp_path / "two.yaml"
    file.write_text("extends: eight-core-l2\ntitle: two\ncores: {core: {count: 2}}\n")
    graph, machine = b.graph(), load_machine(file)
    found = Fusion(graph, machine, machine.dtype, "wide").run(Effort.LOW).best
    bounds = bounds_of(graph, machine, machine.dtype)
    assert bounds.matrix < bounds.cycles <= found.cycles


# What the bounds say ---------------------------------------------------------------------------


def test_weights_that_do_not_fit_follow_the_last_element() -> None:
    """docs/bounds.md, the example of the suffix bound."""
    b = GraphBuilder()
    x = conv(b, b.input(1, 64, 64, 64), 256)
    for _ in range(4):
        x = conv(b, x, 256)
    graph = b.graph()
    machine = load_machine("npu-2.7").with_memory(256 * 1024)
    bounds = bounds_of(graph, machine, "fp16")
    model = CostModels(machine).model(machine.engines[0])
    first = Workload(
        WorkKind.CONV, "fp16", 256, 64, 64, 64, 64, 64, kernel_height=3, kernel_width=3
    )
    other = first._replace(in_channels=256)
    weights = 2 * (256 * 256 * 9 + 256)
    first, *others = [model.floor(w) / 2 for w in (first, *[other] * 4)]  # two arrays
    expected = first + (4 * weights - 2 * 256 * 1024) / RATE
    assert bounds.suffix >= expected
    last = sum((first, *others))
    assert bounds.compute == pytest.approx(last, rel=1e-3)


def test_compulsory_bytes_are_what_is_read() -> None:
    b = GraphBuilder()
    x = b.input(1, 16, 32, 32)
    ends = [b.constant([v], "int64") for v in (0, 8, 2)]
    b.add("Relu", b.add("Slice", x, *ends))
    graph = b.graph()
    bounds = bounds_of(graph, load_machine("npu-2.7"), "fp16")
    assert bounds.compulsory_bytes == 2 * 2 * 16 * 8 * 32
    assert bounds.traffic == int(LATENCY + bounds.compulsory_bytes / RATE)


def test_a_table_is_not_read_entirely() -> None:
    b = GraphBuilder()
    rows = b.add("Gather", b.weight(1000, 64), b.input(1, 8, dtype="int64"))
    b.add("MatMul", rows, b.weight(64, 64))
    bounds = bounds_of(b.graph(), load_machine("npu-2.7"), "fp16")
    assert bounds.compulsory_bytes == 2 * (8 * 64 + 64 * 64 + 8 * 64)


def test_work_that_nobody_needs_does_not_count() -> None:
    def network(stride: int) -> Graph:
        b = GraphBuilder()
        x = conv(b, b.input(1, 64, 32, 32), 256)
        conv(b, x, 16, 1, strides=[stride, stride])
        return b.graph()

    machine = load_machine("npu-2.7")
    dense, sparse = (bounds_of(network(s), machine, "fp16").compute for s in (1, 2))
    assert sparse < 0.4 * dense


def test_only_weights_of_what_depends_on_the_last_element_count() -> None:
    """Every filter of a convolution waits for the last element; of a product with a constant only
    one number does, the others may have come and gone."""

    def streams(mixing: bool) -> bool:
        b = GraphBuilder()
        x = conv(b, b.input(1, 64, 64, 64), 512)
        if mixing:
            b.add("Conv", x, b.weight(64, 512, 8, 8), strides=[8, 8])
        else:
            b.add("Mul", x, b.weight(1, 512, 64, 64))
        machine = load_machine("npu-2.7").with_memory(64 * 1024)
        bounds = bounds_of(b.graph(), machine, "fp16")
        return bounds.suffix > 1.05 * max(bounds.compute, bounds.traffic)

    assert streams(True)
    assert not streams(False)


def test_engines_that_wait_for_all_of_each_other_take_turns() -> None:
    """docs/bounds.md, the chain: vector work, then matrix work, then vector work, each of which
    waits for all that was before the last of the one before."""

    def network(*kinds: str) -> Graph:
        b = GraphBuilder()
        x = b.input(1, 64, 32, 32)
        for kind in kinds:
            if kind == "Conv":
                x = conv(b, x, 64)
                continue
            x = b.add("Reshape", x, b.constant([1, 64 * 32 * 32], "int64"))
            x = b.add("Softmax", x, axis=1)
            x = b.add("Reshape", x, b.constant([1, 64, 32, 32], "int64"))
        return b.graph()

    machine = load_machine("npu-2.7")
    matrix = bounds_of(network("Conv"), machine, "fp16").matrix - 2 * LATENCY
    vector = bounds_of(network("Softmax"), machine, "fp16").vector - 2 * LATENCY
    each = max(1, vector // matrix)
    parts = (*["Softmax"] * 3, *["Conv"] * 4 * each, *["Softmax"] * 3)
    bounds = bounds_of(network(*parts), machine, "fp16")
    assert bounds.chain >= 0.999 * (2 * vector + 4 * each * matrix + 3 * vector)
    assert bounds.suffix < 0.85 * bounds.chain


def test_values_without_elements_move_no_bytes() -> None:
    b = GraphBuilder()
    x = b.add("Reshape", b.input(0, 4, 2), b.constant([2, 0, 4], "int64"), allowzero=1)
    b.add("Relu", b.add("Reshape", x, b.constant([0, 8], "int64"), allowzero=1))
    assert bounds_of(b.graph(), load_machine("npu-2.7"), "fp16").compulsory_bytes == 0


def test_arrays_run_what_they_can() -> None:
    """Additions of full tensors are for the arrays, however idle the vector engines are."""
    b = GraphBuilder()
    x, y = b.input(1, 64, 64, 64), b.input(1, 64, 64, 64)
    for _ in range(8):
        x = b.add("Add", x, y)
    machine = load_machine("npu-2.7")
    bounds = bounds_of(b.graph(), machine, "fp16")
    work = Workload(WorkKind.ELTWISE, "fp16", 64, 64, 64, 64, 64, 64, operator="add")
    models = CostModels(machine)
    array = models.model(machine.cores[0].engines[0]).floor(work)
    assert bounds.matrix == bounds.compute == pytest.approx(8 * array / 2 + 2 * LATENCY, rel=1e-3)
    assert bounds.vector == 0


def test_a_whole_number_of_tiles_covers_the_work() -> None:
    """197 rows are 13 steps; a tile of 13 costs more a step than one of 8, and so does the rest."""
    model = CostModels(load_machine("npu-2.7")).model(load_machine("npu-2.7").engines[0])
    assert isinstance(model, ArrayModel)
    ragged, even = (matrix_product(rows, 3072, 768, "fp16") for rows in (197, 256))
    assert model.floor(ragged) > 1.01 * model.even_floor(ragged)
    assert model.floor(even) == pytest.approx(model.even_floor(even), rel=1e-3)


def test_engines_that_share_an_operator_have_an_even_share_and_a_call_each() -> None:
    machine = load_machine("npu-4.0")
    models = CostModels(machine)
    array, vector = (models.model(engine) for engine in machine.cores[0].engines)
    small = Workload(WorkKind.CONV, "fp16", 16, 64, 4, 4, 4, 4)  # one step, which nobody shares
    assert array.makespan(small, 6) >= 0.9 * array.cost(small).cycles > 5 * array.floor(small) / 6
    row = Workload(WorkKind.VECTOR, "fp16", 1200, 1200, operator="softmax")
    assert vector.makespan(row, 6) == pytest.approx(1000 + 1200 / 2 * 0.75 / 6)


def test_readers_of_the_last_tile_take_a_task_each() -> None:
    b = GraphBuilder()
    y = b.add("Conv", b.input(1, 64, 28, 28), b.weight(64, 64, 3, 3), pads=(1, 1, 1, 1))
    machine = load_machine("npu-2.7")
    plain = bounds_of(b.graph(y), machine, "fp16")
    y = b.add("Softmax", b.add("Sigmoid", y), axis=3)
    found = bounds_of(b.graph(y), machine, "fp16")
    assert found.name == "chain"
    calls = 1000 + 1000 + 0.75 * 28 / 2  # a softmax takes a whole row
    assert found.chain >= plain.matrix + calls - 2
    assert found.matrix == plain.matrix  # the vector engines have less to do than the arrays


def test_scales_of_channels_are_vector_work() -> None:
    """An image times a number a channel is work for arrays in tiles of one position alone."""
    b = GraphBuilder()
    image, scale = b.input(1, 64, 56, 56), b.input(1, 64, 1, 1)
    b.add("Mul", image, scale)
    bounds = bounds_of(b.graph(), load_machine("npu-2.7"), "fp16")
    elements = 64 * 56 * 56 / 2 / 2  # two clusters of two units
    assert bounds.compute >= 0.95 * (2 * LATENCY + 500 + elements * 0.3)


def test_something_is_loaded_before_and_stored_behind_all_work() -> None:
    b = GraphBuilder()
    x = conv(b, b.input(1, 16, 8, 8), 16)
    machine = load_machine("npu-2.7")
    bounds = bounds_of(b.graph(), machine, "fp16")
    assert x and bounds.cycles >= 2 * LATENCY + 100
    assert (
        run(b.graph(), machine, layer_by_layer(b.graph(), machine, "fp16", "one")).latency_cycles
        < 3 * bounds.cycles
    )


def test_activations_cost_nothing_where_they_fold() -> None:
    def network(activation: str) -> Graph:
        b = GraphBuilder()
        b.add(activation, conv(b, b.input(1, 16, 32, 32), 16))
        return b.graph()

    machine = load_machine("npu-2.7")
    relu, tanh = (bounds_of(network(a), machine, "fp16") for a in ("Relu", "Tanh"))
    assert relu.vector == 0 < tanh.vector


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2"])
def test_zoo_networks_untiled_in_one_large_scratchpad(name: str) -> None:
    """Every tensor stays on one core, every weight is loaded once: close to the bound."""
    model = api.load(f"{name}@64x64")
    graph = normalize(model.graph)
    machine = load_machine("npu-2.7").with_memory(64 << 20)
    groups = tuple(GroupPlan((node.name,), ()) for node in graph.nodes)
    plan = Plan(name, machine.name, "fp16", groups)
    account = run(graph, machine, replace(plan, resident=between(graph, plan)))
    bounds = bounds_of(graph, machine, "fp16")
    moved = account.dram_read_bytes + account.dram_write_bytes
    assert bounds.compulsory_bytes == moved
    assert 1 <= account.latency_cycles / bounds.cycles < 3.5
    assert bounds.energy_pj <= account.energy_pj


def test_bounds_of_a_deep_network_take_less_than_a_second() -> None:
    graph = chain(700, 16, 8)
    start = process_time()
    bounds = bounds_of(graph, load_machine("npu-2.7"), "fp16")
    assert process_time() - start < 2  # on a shared machine
    assert bounds.cycles == max(cycles for _, cycles in bounds.parts)
