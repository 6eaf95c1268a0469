"""Space files: axes, links, requirements, and errors that name the key."""

from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
import yaml

from tilewright.errors import TilewrightError
from tilewright.sweep.errors import SpaceError
from tilewright.sweep.point import Planner, Point
from tilewright.sweep.space import Space
from tilewright.sweep.space_file import read_space, space_of

BASE: dict[str, Any] = {
    "fixed": {"machine": "npu-2.7", "effort": "layers"},
    "axes": {"model": ["four_convs@8x8"]},
}
CMX = "machine.cores.cluster.memories.cmx"


def space(**more: Any) -> Space:
    return space_of({**BASE, **more}, Path())


def points(found: Space) -> list[Any]:
    return list(found.grid(Planner(found.folder)))


def with_axis(spec: Any, name: str = "x") -> Space:
    return space(axes={**BASE["axes"], name: spec})


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"values": ["1 MiB", "512 KiB"]}, ["1 MiB", "512 KiB"]),
        ({"from": "256 KiB", "to": "1 MiB", "times": 2}, ["256 KiB", "512 KiB", "1024 KiB"]),
        ({"from": "1 MB", "to": "3 MB", "step": "1 MB"}, ["1 MB", "2 MB", "3 MB"]),
        ({"from": "1 MiB", "to": "1.5 MiB", "count": 3}, ["1 MiB", "1.25 MiB", "1.5 MiB"]),
    ],
)
def test_ranges(spec: dict[str, Any], expected: list[str]) -> None:
    found = with_axis({"field": f"{CMX}.usable", **spec})
    assert [each.values["x"] for each in points(found)] == expected


def test_the_grid_is_every_combination_last_axis_fastest() -> None:
    found = space(
        axes={
            "model": ["four_convs@8x8", "rn50_stem@32x32"],
            "dtype": ["fp16", "int8"],
            "objective": ["latency", "energy"],
        }
    )
    all_values = [tuple(each.values.values()) for each in points(found)]
    assert len(all_values) == len(set(all_values)) == 8 == found.size
    assert all_values[:3] == [
        ("four_convs@8x8", "fp16", "latency"),
        ("four_convs@8x8", "fp16", "energy"),
        ("four_convs@8x8", "int8", "latency"),
    ]
    assert [each.number for each in points(found)] == list(range(8))


def test_linked_axes_move_together_and_sets_follow() -> None:
    found = space(
        axes={
            **BASE["axes"],
            "cores": {"field": "machine.cores.cluster.count", "values": [1, 2, 4]},
            "queues": {"field": "machine.links.dma.count", "values": [1, 2, 2], "with": "cores"},
        },
        set={
            f"{CMX}.usable": "cores * 256 * KiB",
            "machine.memories.ddr.bandwidth": "cores * 9 * GB",
        },
    )
    assert found.size == 3
    machines = [
        Planner(Path()).machine(each.point.machine, each.point.fields) for each in points(found)
    ]
    assert [(len(m.cores), len(m.links)) for m in machines] == [(1, 1), (2, 2), (4, 2)]
    assert [m.cores[0].memory.usable for m in machines] == [1 << 18, 1 << 19, 1 << 20]
    rates = [m.group_bytes_per_cycle("ddr") * m.clock_hz for m in machines]
    assert rates == pytest.approx([9e9, 18e9, 36e9])
    places = [dict(m.sources) for m in machines]
    assert all("sweep" in p["memories.ddr.bandwidth"] for p in places), "sources stay honest"


def test_wildcards_set_all_that_match() -> None:
    found = with_axis(
        {
            "field": "machine.cores.cluster.engines.dpu.parameters.modes.*.unroll.out_channels",
            "values": [8, 16, 32],
        }
    )
    planner = Planner(Path())
    peaks = [planner.facts(each.point)["macs_per_cycle"] for each in points(found)]
    assert peaks[1] == 2 * peaks[0] and peaks[2] == 4 * peaks[0]


def test_a_machine_with_one_source_for_the_whole_file_can_be_changed(tmp_path: Path) -> None:
    """The first machine file of the examples says once where its figures come from."""
    example = Path(__file__).parents[2] / "examples" / "machines" / "1-minimal.yaml"
    (tmp_path / "own.yaml").write_text(example.read_text())
    planner = Planner(tmp_path)
    fields = (("cores.core.memories.sram.capacity", "64 KiB"), ("clock", "1 GHz"))
    machine = planner.machine("own.yaml", fields)
    assert machine.cores[0].memory.usable == 65536 and machine.clock_hz == 1e9
    told = dict(machine.sources)
    assert "sweep" in told["clock"] and told["memories.dram"] == "my own figures"


def test_requirements_and_definitions() -> None:
    found = space(
        axes={
            **BASE["axes"],
            "usable": {"field": f"{CMX}.usable", "from": "256 KiB", "to": "2 MiB", "times": 2},
            "cores": {"field": "machine.cores.cluster.count", "values": [1, 2]},
        },
        set={f"{CMX}.capacity": "usable"},
        define={
            "area": "cores * usable / MiB",
            "cost": "area + core_count + scratchpad_bytes / GiB",
        },
        require=["area <= 2", f"{CMX}.usable >= 512 * KiB"],
    )
    rows = [
        (each.values["usable"], each.values["cores"], each.derived["area"])
        for each in points(found)
    ]
    assert rows == [
        ("512 KiB", 1, 0.5),
        ("512 KiB", 2, 1.0),
        ("1024 KiB", 1, 1.0),
        ("1024 KiB", 2, 2.0),
        ("2048 KiB", 1, 2.0),
    ]


def test_keys_are_content() -> None:
    planner = Planner(Path())

    def key(**options: Any) -> str:
        given = {"model": "four_convs@8x8", "machine": "npu-2.7", **options}
        return planner.key(Point(**given))

    usable = f"{CMX}.usable".removeprefix("machine.")
    assert key(fields=((usable, "1 MiB"),)) == key(fields=((usable, "1024 KiB"),))
    assert key(fields=((usable, "1936 KiB"),)) == key(), "the machine's own value"
    assert key(dtype="fp16") == key() == key(dtype="float16") == key(batch=1)
    others = [
        key(dtype="int8"),
        key(effort="low"),
        key(objective="energy"),
        key(batch=2),
        key(model="four_convs@9x9"),
        key(machine="mcu"),
        key(fields=((usable, "1 MB"),)),
        key(),
    ]
    assert len(set(others)) == len(others)


def test_a_batch_changes_what_is_planned() -> None:
    planner = Planner(Path())
    one, four = (
        planner.plan(Point("four_convs@8x8", "npu-2.7", batch=n, effort="layers")).summary
        for n in (1, 4)
    )
    assert four["dram_write_bytes"] == 4 * one["dram_write_bytes"]


ONE = {"model": ["four_convs@8x8"]}
COUNT, QUEUES = "machine.cores.cluster.count", "machine.links.dma.count"
LONG = {"from": 1, "to": 2000, "step": 1}


def bomb() -> list[Any]:
    """What a few lines of YAML with anchors become: a list that is far too long to write out."""
    nested: list[Any] = ["x"] * 10
    for _ in range(6):
        nested = [nested] * 10
    return nested


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"axes": {}}, "axes: is missing"),
        ({"axis": {}}, "axis: no such key: did you mean 'axes'"),
        ({"axes": {"model": ["nonet"]}}, "no file 'nonet'"),
        ({"axes": {"colour": [1]}}, "'colour' is no field"),
        ({"axes": {"model": []}}, "axes.model.values: needs 1"),
        ({"axes": {**ONE, "machine": ["mcu"]}}, "'machine' is set in more than"),
        ({"axes": {"dtype": ["int8"]}}, "model: is missing"),
        ({"fixed": {"machine": "nope"}}, "no machine 'nope'"),
        ({"axes": {**ONE, "objective": ["huge"]}}, "axes.objective: 'huge' has to be one"),
        ({"axes": {**ONE, "batch": [0]}}, "axes.batch: '0' has to be"),
        ({"axes": {**ONE, "dtype": ["fp5"]}}, "'fp5'"),
        ({"axes": {**ONE, "latency_ms": {"field": COUNT, "values": [1]}}}, "name of a figure"),
        ({"require": ["area < 3"]}, "reads 'area', which is not known"),
        ({"require": ["__import__('os').getcwd() == 1"]}, "is not allowed"),
        ({"define": {"cost": "open('x')"}}, "define.cost"),
        ({"front": ["latency_ms"]}, "at least two columns"),
        ({"front": ["latency_ms", "latency_ms"]}, "each once"),
        ({"front": [["latency_ms"], "energy_pj"]}, "front: .* has to be text"),
        ({"axes": {**ONE, "n": {"field": COUNT, "values": [1, 2, 1]}}}, "axes.n: has 1 more than"),
        ({"axes": {**ONE, "n": {"field": COUNT, "values": [1, nan]}}}, "nan is neither"),
        ({"axes": {**ONE, "n": {"field": COUNT, "values": [inf]}}}, "inf is neither"),
        (
            {"axes": {**ONE, "n": {"field": COUNT, "from": nan, "to": 2, "step": 1}}},
            "n.from: has to be a number",
        ),
        ({"axes": {**ONE, "n": {"field": [COUNT], "values": [1]}}}, "axes.n.field: .* be text"),
        ({"define": {"latency_ms": 1}}, "define.latency_ms: .* has a meaning already"),
        ({"define": {"core_count": 1}}, "define.core_count: .* has a meaning already"),
        ({"define": {"GB": 1}}, "define.GB: .* has a meaning already"),
        ({"define": {"cost": bomb()}}, "define.cost: .* is no expression"),
        ({"fixed": {"machine": "npu-2.7", "shape": {"x": bomb()}}}, "is no shape"),
        ({"name": bomb()}, "name: .* has to be text"),
        ({"under_ms": nan}, "under_ms: nan"),
        ({"front": ["latency_ms", "speed"]}, "no column 'speed'"),
        ({"front": ["latency_ms", "model"]}, "'model' is an axis whose values are no numbers"),
        (
            {
                "axes": {**ONE, "n": {"field": COUNT, "values": [1, 2]}},
                "guided": {"minimise": ["latency_ms", "n"]},
            },
            "'n' is an axis: define a column",
        ),
        ({"under_ms": "fast"}, "under_ms"),
        ({"guided": {"generation": 1}}, "guided: generation"),
        ({"set": {"machine.cores.cluster.nothing.here": "1"}}, "has no such field"),
        (
            {"axes": {**ONE, "x": {"field": COUNT, "from": "1 GHz", "to": "2 MB", "step": 1}}},
            "same unit",
        ),
        ({"axes": {**ONE, "x": {"field": COUNT, "from": 1, "to": 1e12, "step": 1}}}, "more than"),
        ({"axes": {**ONE, "x": {"field": COUNT, "from": 2, "to": 8}}}, "one of step, times"),
        ({"axes": {**ONE, "q": {"field": QUEUES, "values": [1], "with": "z"}}}, "axes.q.with"),
        (
            {"axes": {**ONE, "x": {"field": COUNT, **LONG}, "y": {"field": QUEUES, **LONG}}},
            "the grid has 4,000,000 points",
        ),
    ],
)
def test_wrong_spaces(more: dict[str, Any], complaint: str) -> None:
    with pytest.raises(TilewrightError, match=complaint):
        space(**more)


@pytest.mark.parametrize(
    "text",
    [
        "axes: !!python/object/apply:os.system ['touch HACKED']",
        "!!python/object/new:type {args: [a, [], {}]}",
        "axes: {model: !!python/name:os.system}",
        "axes: [",
        "- 1",
        "just text",
        "axes: {model: [four_convs], model: [resnet18]}\nfixed: {machine: npu-2.7}",
        "a: &a [*a]",
        "{" * 2000,
    ],
)
def test_files_that_are_no_plain_mapping(text: str, tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    path.write_text(text)
    with pytest.raises(TilewrightError, match=r"space\.yaml"):
        read_space(path)
    assert not Path("HACKED").exists()


def test_files_that_a_space_names_are_beside_it(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("extends: npu-2.7\nclock: 650 MHz\n")
    document = {"fixed": {"machine": "own.yaml"}, "axes": {"model": ["four_convs@8x8"]}}
    (tmp_path / "space.yaml").write_text(yaml.safe_dump(document))
    found = read_space(tmp_path / "space.yaml")
    (each,) = found.grid(Planner(found.folder))
    assert each.derived["clock_hz"] == 650e6
    assert each.point.machine == "own.yaml", "rows hold no path of this computer"


def test_an_expression_without_a_value_names_the_point() -> None:
    found = space(
        axes={**ONE, "n": {"field": COUNT, "values": [1, 2]}}, define={"cost": "1 / (n - 2)"}
    )
    with pytest.raises(SpaceError, match=r"divides by zero, where model is .*, n is 2"):
        points(found)
