"""Machine files: what ships, what is refused and how it is said."""

from pathlib import Path

import pytest

from tilewright.errors import TilewrightError
from tilewright.machine import list_machines, load_machine
from tilewright.machine.text import machine_text

SHIPPED = [
    "mcu",
    "npu-2.7",
    "npu-2.7-legacy-kernels",
    "npu-4.0",
    "npu-4.0-2",
    "npu-4.0-4",
    "npu-4.0-6",
    "three-core-bus",
    "tpu-like",
    "trn1",
    "trn2",
]


def test_shipped_machines() -> None:
    assert set(SHIPPED) <= set(list_machines())


@pytest.mark.parametrize("name", SHIPPED)
def test_every_machine_loads_and_can_move_data(name: str) -> None:
    machine = load_machine(name)
    assert machine.name == name
    main = machine.main_memory.name
    for core in machine.cores:
        assert core.engine("matrix") is not None and core.engine("vector") is not None
        assert 0 < core.memory.usable <= core.memory.capacity
        assert list(machine.routes(main, core.memory.name))
        assert list(machine.routes(core.memory.name, main))
    for link in machine.links:
        for route in link.routes:
            ends = (machine.memory(route.source), machine.memory(route.destination))
            assert ends[0] != ends[1] or ends[0].core is not None  # within a scratchpad
            assert machine.alone_bytes_per_cycle(route) > 0


@pytest.mark.parametrize("name", SHIPPED)
def test_every_block_has_a_source(name: str) -> None:
    machine = load_machine(name)
    places = {place for place, _ in machine.sources}
    assert all(text.strip() for _, text in machine.sources)
    for prefix in ("cores.", "memories.", "links.", "limits", "energy"):
        assert any(place.startswith(prefix) for place in places), prefix


def test_npu_figures_are_those_of_the_sources() -> None:
    machine = load_machine("npu-2.7")
    assert [core.name for core in machine.cores] == ["cluster0", "cluster1"]
    assert machine.cores[0].memory.usable == 1936 * 1024
    (link, route), (other, _) = machine.routes("ddr", "cluster0.cmx")
    assert (link.name, other.name) == ("dma0", "dma1")
    assert route.latency == 1243 and route.multicast
    assert machine.alone_bytes_per_cycle(route) == pytest.approx(20.77, abs=0.01)
    assert 2 * route.bytes_per_cycle > machine.group_bytes_per_cycle("ddr")
    _, local = next(machine.routes("cluster0.cmx", "cluster1.cmx"))
    assert local.latency == 22 and local.bytes_per_cycle == pytest.approx(12)
    assert machine.limits.kernel == 11 and machine.limits.pad_half_kernel
    assert machine.seconds(1_300_000) == pytest.approx(1e-3)


def test_newer_npu_extends_the_older() -> None:
    machine = load_machine("npu-4.0")
    assert [len(load_machine(f"npu-4.0-{n}").cores) for n in (2, 4, 6)] == [2, 4, 6]
    assert len(machine.cores) == 6
    _, route = next(machine.routes("ddr", "cluster5.cmx"))
    assert route.latency == 510
    assert machine.alone_bytes_per_cycle(route) == pytest.approx(36.6, abs=0.1)
    _, local = next(machine.routes("cluster0.cmx", "cluster1.cmx"))
    assert (local.latency, round(local.bytes_per_cycle, 1)) == (15, 18.4)


def test_variants_for_sweeps() -> None:
    machine = load_machine("npu-2.7")
    small = machine.with_memory(384 * 1024)
    assert {core.memory.usable for core in small.cores} == {384 * 1024}
    assert small.cores[0].memory.capacity == (384 + 112) * 1024
    assert load_machine("npu-2.7").cores[0].memory.usable == 1936 * 1024
    fast = machine.with_bandwidth("ddr", 54e9)
    assert fast.group_bytes_per_cycle("ddr") == pytest.approx(54 / 1.3)
    assert fast.main_memory.bytes_per_cycle == fast.group_bytes_per_cycle("ddr")
    with pytest.raises(TilewrightError, match="no bandwidth 'noc'"):
        machine.with_bandwidth("noc", 1e9)
    with pytest.raises(TilewrightError, match="no memory 'l9'"):
        machine.with_memory(1024, "l9")


def write(folder: Path, text: str, name: str = "mine.yaml") -> Path:
    """A machine file of one's own."""
    path = folder / name
    path.write_text(text)
    return path


def test_own_file_extends_a_shipped_one(tmp_path: Path) -> None:
    path = write(tmp_path, "extends: npu-2.7\ncores: {cluster: {count: 3}}\n")
    machine = load_machine(path)
    assert machine.name == "mine" and len(machine.cores) == 3
    second = write(
        tmp_path, "extends: mine.yaml\nmemories: {ddr: {bandwidth: 13 GB/s}}\n", "b.yaml"
    )
    assert load_machine(second).main_memory.bytes_per_cycle == pytest.approx(10)


WRONG = {
    "memories: {ddr: {bandwidth: fast}}": (
        "memories.ddr.bandwidth: has to be a bandwidth such as 27 GB/s or 32 B/cycle, is 'fast'$"
    ),
    "memories: {ddr: {bandwidth: 0 B/cycle}}": "bandwidth: has to be more than 0, is '0 B/cycle'",
    "memories: {ddr: {colour: red}}": "memories.ddr.colour: no such key$",
    "memories: {ddr: {capacity: abc}}": (
        "memories.ddr.capacity: has to be a number of bytes such as 4096, 64MB or 1.5MiB, is 'abc'$"
    ),
    "memories: {ddr: {capacity: [1]}}": "capacity: has to be a number of bytes",
    "cores: {cluster: {count: 0}}": "cores.cluster.count: has to be at least 1, is '0'$",
    "cores: {cluster: {count: two}}": "cores.cluster.count: has to be a whole number, is 'two'$",
    "cores: 3": "mine.yaml:2: cores: has to be a mapping, is '3'",
    "limits: {pad_half_kernel: maybe}": "pad_half_kernel: has to be true or false, is 'maybe'",
    "limits: {source: [7]}": "limits.source: has to be text, or a mapping of texts, is a list$",
    "energy: {mac_pj: {fp16: x}}": "energy.mac_pj.fp16: has to be a number, is 'x'",
    "title: {a: b}": "title: has to be text, is a mapping",
    "links: {dma: {kind: tube}}": "kind: has to be one of 'dma', 'link', .*, is 'tube'",
    "links: {dma: {routes: {ddr: {groups: noc}}}}": "ddr.groups: has to be a list, is 'noc'",
    "links: {dma: {routes: {ddr: {latency: soon}}}}": "has to be a time such as .*, is 'soon'",
    "1: x": "keys have to be text",
    "cores: {cluster: {engines: {dpu: {model: table, parameters: {rows: [{kind: conv}]}}}}}": (
        r"mine.yaml:2: cores.cluster.engines.dpu.parameters.*: .* \(and .* more: tilewright check"
    ),
    "cores: {cluster: {memories: {cmx: {usable: 3 MiB}}}}": "memories.cmx: usable is more",
    "cores: {cluster: {engines: {dpu: {model: magic}}}}": (
        "cores.cluster.engines.dpu.model: has to be one of 'array', 'vector', 'table', is 'magic'"
    ),
    "cores: {cluster: {engines: {dpu: {parameters: {rates: {fp16: {conv: {compute: -1}}}}}}}}": (
        "engines.dpu.parameters.rates.fp16.conv.compute: has to be at least 1e-06, is '-1'"
    ),
    "cores: {cluster: {engines: {dpu: {parameters: {rates: {fp16: {pool: {mode: x}}}}}}}}": (
        "engines.dpu.parameters.rates.fp16.pool.mode: no mode 'x'"
    ),
    "cores: {cluster: {engines: {dpu: {parameters: {rates: {int8: {depthwise:\n"
    " {per_column: 0, per_block: 0.2}}}}}}}}": (
        "rates.int8.depthwise: runs faster than the array's 2048 multiply-accumulates a cycle: "
        "per_column and per_block are 0.25 at least, together"
    ),
    "cores: {cluster: {engines: {dpu: {parameters: {rates: {int8: {pool:\n"
    " {per_column: 0, per_block: 0, per_step: 0, input_bytes_per_cycle: null}}}}}}}}": (
        "rates.int8.pool: takes as long whatever its size: give per_column, per_block, per_step"
    ),
    "cores: {cluster: {engines: {dpu: {parameters: {modes: {16x16:\n"
    " {block: {in_channels: 4}}}}}}}}": ("modes.16x16.block.in_channels: no such key"),
    "cores: {cluster: {engines: {dpu: {parameters: {packed_channels: null}}}}}": (
        "mine.yaml:2: .*rates.fp16.first_conv: has no effect without packed_channels beside modes "
        r"and rates \(the key stands in .*npu-2.7.yaml:68\)"
    ),
    "cores: {cluster: {engines: {dpu: {parameters: {packed_channels: 16}}}}}": (
        "packed_channels: has to be at most 15"
    ),
    "cores: {cluster: {engines: {dpu: {parameters: {rates: {int8:\n"
    " {depthwise: null, pool: null, eltwise: null}}}}}}}": (
        "rates.int8.channel_grain: has no effect without depthwise, pool or eltwise"
    ),
    "cores: {cluster: {engines: {dpu: {parameters: {rates: {int8: null, fp16:\n"
    " {first_conv: null, conv: {activation_bytes_per_cycle: null, weight_bytes_per_cycle: null,\n"
    " output_bytes_per_cycle: null}}}, sharpness: 8}}}}}": "sharpness: has no effect: .* computing",
    "cores: {cluster: {engines: {shave: {parameters: {copy_16bit: 2}}}}}": (
        "shave.parameters.copy_16bit: has no effect: `tilewright kernel` alone reads it"
    ),
    "cores: {cluster: {engines: {dsp: {kind: vector, model: vector, source: x,\n"
    " parameters: {per_call: 9, rates: {default: {per_element: 1, per_call: 5}}}}}}}": (
        "parameters.per_call: has no effect: every rate has"
    ),
    "groups: {noc: {bandwidth: 1 GB/s, source: x}}": (
        r"groups.noc: has no effect: no route shares it \(groups: \[noc\]\)"
    ),
    "links: {dma: {routes: {again: {from: ddr, to: cluster0.cmx, latency: 1 ns,\n"
    " bandwidth: 1 GB/s, source: x}}}}": (
        "dma.routes.again: has no effect: routes before it copy between"
    ),
    "links: {dma: {routes: {ddr: {to: moon}}}}": "links.dma.routes.ddr: 'ddr' to 'moon' names no",
    "links: {dma: {routes: {ddr: {groups: [noc]}}}}": "routes.ddr.groups: no bandwidth 'noc'",
    "limits: {source: null}": "limits.source: is missing$",
    "memories: {ddr: {source: {capacity: null}}}": "memories.ddr: no source for capacity",
    "clock: 0 MHz": "clock: has to be a frequency such as 1300 MHz, from 1 kHz .*, is '0 MHz'",
    "dtype: fp17": "no machine computes with elements of type 'fp17'",
    "extends: npu-9": (
        "extends: no file 'npu-9' beside this one, and no machine is called so: there are eight-cor"
    ),
    "[1, 2]": "a machine file is a mapping",
    "a: [": "not YAML",
    "limits: {source: {kernel: 3}}": "limits.source.kernel: has to be text, is '3'$",
    "cores: &c {cluster: *c}": "mine.yaml:2: an alias stands inside what it stands for$",
    "cores: &c\n- a: [1, *c]": "mine.yaml:2: an alias stands inside what it stands for$",
    "clock: 2024-99-99": "mine.yaml:2: not YAML: month must be",
    "clock: 1 MHz\nclock: 2 MHz": "mine.yaml:3: clock: is given twice$",
    "x: !!python/object:os.system {}": "mine.yaml:2: not YAML: could not determine a constructor",
    f"limits: {{kernel: {'9' * 6000}}}": "not YAML: Exceeds the limit",
    "memories: {ddr: {capacity: 10000000000000000000000}}": "capacity: has to be at most 11258",
    "memories: {ddr: {alignment: .nan}}": "alignment: has to be .*, is 'nan'",
    "memories: {ddr: {bandwidth: .inf B/cycle}}": "ddr.bandwidth: has to be a bandwidth",
    "memories: {ddr: {bandwidth: 1 B/s}}": (
        "memories.ddr.bandwidth: has to be 0.015625 to 1e[+]09 bytes per cycle"
    ),
    "links: {dma: {routes: {ddr: {latency: -1 cycles}}}}": "latency: has to be a time such as",
    "links: {dma: {routes: {ddr: {latency: 99999 s}}}}": "latency: has to be at most 1e",
    "cores: {cluster: {count: true}}": "count: has to be a number, is 'true'",
    "cores: {cluster0: {count: null}, cluster: {count: 1}}": "cores.cluster0.memories: is missing",
    "groups: {ddr: {bandwidth: 1 GB/s, source: x}}": "groups.ddr: is the bandwidth of a memory",
}


@pytest.mark.parametrize("text", WRONG, ids=lambda text: text[:80])
def test_a_wrong_file_is_one_line_that_names_file_and_key(tmp_path: Path, text: str) -> None:
    head = "extends: npu-2.7\n" if ":" in text and "extends" not in text else ""
    path = write(tmp_path, head + text)
    with pytest.raises(TilewrightError, match=WRONG[text]) as caught:
        load_machine(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_that_is_no_text_is_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(bytes(range(256)))
    with pytest.raises(TilewrightError, match=r"mine.yaml: not YAML: it is no text, or not in UTF"):
        load_machine(path)
    other = path.rename(tmp_path / "mine.txt")
    with pytest.raises(TilewrightError, match=r"mine.txt: a machine file is called .yaml or .yml"):
        load_machine(other)


def test_unknown_names_say_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(TilewrightError, match=r"no machine 'npu-3'.*npu-2\.7"):
        load_machine("npu-3")
    with pytest.raises(TilewrightError, match="no such machine file"):
        load_machine(tmp_path / "none.yaml")
    with pytest.raises(TilewrightError, match="has no memory 'l2'"):
        load_machine("mcu").memory("l2")
    loop = write(tmp_path, "extends: mine.yaml\n")
    with pytest.raises(TilewrightError, match="extends itself"):
        load_machine(loop)


@pytest.mark.parametrize("name", SHIPPED)
def test_text_is_stable_and_names_every_part(name: str) -> None:
    machine = load_machine(name)
    text = machine_text(machine, sources=True)
    assert text == machine_text(machine, sources=True)
    for part in (*machine.memories, *machine.engines, *machine.links, *machine.cores):
        assert part.name in text


def test_text_of_an_npu() -> None:
    text = machine_text(load_machine("npu-2.7"))
    assert "ddr -> cluster0.cmx and 3 more: 1243 cycles + bytes / 20.8, shares ddr" in text
    assert "(estimate)" in text
