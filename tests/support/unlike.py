"""Machines whose cores differ."""

import tempfile
from pathlib import Path
from typing import Any

import yaml

from tilewright.machine.load import load_machine
from tilewright.machine.machine import Machine


def core(
    channels: int,
    kib: int = 128,
    count: int = 1,
    width: int = 1,
    output_stage: list[str] | None = None,
) -> dict[str, Any]:
    """Cores whose arrays take so many channels in and out, and so many columns, at once."""
    unroll = {"out_channels": channels, "in_channels": channels, "width": width}
    forms = {"conv": {"overhead": 50}, "depthwise": {"overhead": 20}}
    array = {"modes": {"plain": {"unroll": unroll}}, "rates": {"int8": forms}}
    simd = {"rates": {"mac": {"per_element": 1}, "default": {"per_element": 0.25}}}
    finish = {} if output_stage is None else {"output_stage": output_stage}
    engines = {
        "array": {"kind": "matrix", "model": "array", "parameters": array, **finish},
        "simd": {"kind": "vector", "model": "vector", "parameters": simd},
    }
    several = {"count": count} if count > 1 else {}
    return {**several, "memories": {"sram": {"capacity": f"{kib} KiB"}}, "engines": engines}


def unlike_cores(**cores: dict[str, Any]) -> Machine:
    """A machine of some cores, by default a large one and two small ones, a quarter as fast."""
    to_all = {"to": "*.sram", "latency": "50 ns", "bandwidth": "8 GB/s"}
    routes = {
        "dram": {"from": "dram", "both_ways": True, **to_all},
        "cores": {"from": "*.sram", **to_all},
    }
    document = {
        "title": "unlike",
        "clock": "500 MHz",
        "dtype": "int8",
        "source": "example",
        "cores": cores or {"large": core(16), "small": core(8, kib=64, count=2)},
        "memories": {"dram": {"capacity": "1 GiB", "bandwidth": "8 GB/s"}},
        "links": {"dma": {"kind": "dma", "count": 2, "routes": routes}},
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "unlike.yaml"
        path.write_text(yaml.safe_dump(document))
        return load_machine(str(path))
