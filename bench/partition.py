"""CPU time of partition and how it grows; MACs beside torch's own counter on published networks.

python bench/partition.py [--json PATH] [--torch]

`--torch` adds the networks of torchvision and transformers, where these are installed.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from common import best_seconds, write_json

from tilewright import api
from tilewright.frontend.builder import Builder
from tilewright.graph.graph import Graph
from tilewright.partition.partition import FusionLevel, partition_graph

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data" / "models" / "sd15_unet.onnx"
RUNS = 5
VISION = (
    "resnet18 resnet50 mobilenet_v2 resnext50_32x4d efficientnet_b0 convnext_tiny vit_b_16 swin_t "
    "densenet121"
).split()


def blocks(count: int) -> Graph:
    """So many residual blocks of seven operators."""
    b = Builder(f"{7 * count} operators")
    x = b.input("x", (1, 16, 8, 8))
    for index in range(count):
        with b.scope(f"b{index}"):
            y = b.op("Relu", b.batch_norm(b.conv(x, 16, 3, pads=1)))
            y = b.batch_norm(b.conv(y, 16, 3, pads=1))
            x = b.op("Relu", b.op("Add", y, x))
    return b.finish(x)


def cpu_seconds(job: Callable[[], object]) -> float:
    """The least of a few runs, after one to warm up."""
    job()
    return best_seconds(job, RUNS)


def speeds() -> Iterator[dict[str, Any]]:
    """CPU time after loading, by network and level."""
    graphs = [api.load("resnet50").graph, api.load("vit_b16").graph]
    graphs += [blocks(count) for count in (54, 107, 214, 428)]
    if BESIDE.exists():
        graphs.append(api.load(str(BESIDE)).graph)
    for graph in graphs:
        for level in (FusionLevel.PATTERN, FusionLevel.BLOCK):
            found = partition_graph(graph, level)
            taken = cpu_seconds(lambda g=graph, at=level: partition_graph(g, at))
            yield {
                "network": graph.name,
                "level": level.value,
                "operators": len(found.operators),
                "kernels": len(found.kernels),
                "cpu_ms": 1e3 * taken,
            }


def published() -> Iterator[tuple[str, Any, Any]]:
    """Networks of torchvision and transformers with example inputs, as far as they are here."""
    import torch

    # torchvision without its compiled part asks for these schemas when it is imported.
    for name in ("nms", "qnms"):
        schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        torch.library.define(f"torchvision::{name}", schema)
    try:
        import torchvision

        for name in VISION:
            yield name, getattr(torchvision.models, name)().eval(), (torch.zeros(1, 3, 224, 224),)
    except ImportError:
        print("torchvision is not installed: its networks are left out")
    try:
        import transformers

        ids = {"input_ids": torch.zeros(1, 128, dtype=torch.int64)}
        yield "bert_base", transformers.BertModel(transformers.BertConfig()).eval(), ids
        block = transformers.GPT2Config(n_layer=1, use_cache=False)
        yield "gpt2_block", transformers.GPT2Model(block).eval(), ids
    except ImportError:
        print("transformers is not installed: its networks are left out")


def counted() -> Iterator[dict[str, Any]]:
    """FLOPs of products, ours and torch's, from each graph that can be had."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    from tilewright.errors import ModelError

    torch.backends.mha.set_fastpath_enabled(False)
    for name, module, inputs in published():
        mode, counter = FakeTensorMode(allow_non_fake_inputs=True), FlopCounterMode(display=False)
        named = inputs if isinstance(inputs, dict) else {}
        plain = () if named else inputs
        with counter, torch.no_grad(), sdpa_kernel(SDPBackend.MATH), mode:
            module(
                *map(mode.from_tensor, plain), **{k: mode.from_tensor(v) for k, v in named.items()}
            )
        for graph in ("module", "aten"):
            start = time.process_time()
            try:
                found = api.partition(module, inputs=inputs, graph=graph).partition
            except ModelError as error:
                yield {"network": name, "graph": graph, "error": str(error)[:100]}
                continue
            yield {
                "network": name,
                "graph": graph,
                "operators": len(found.operators),
                "kernels": len(found.kernels),
                "flops": found.work.flops_matmul,
                "torch_flops": counter.get_total_flops(),
                "cpu_seconds": time.process_time() - start,
            }


def main() -> None:
    """Print the figures, and write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--torch", action="store_true", help="published networks beside torch")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    facts: dict[str, list[dict[str, Any]]] = {"speed": [], "macs": []}
    for row in speeds():
        facts["speed"].append(row)
        print(
            f"{row['network']:>22} {row['level']:<8} {row['operators']:>5} operators "
            f"{row['kernels']:>5} kernels {row['cpu_ms']:8.1f} ms CPU",
            flush=True,
        )
    for row in counted() if arguments.torch else ():
        facts["macs"].append(row)
        told = row.get("error") or (
            f"{row['operators']:>4} -> {row['kernels']:>4}  {row['flops']:>15,} FLOP, torch "
            f"{row['torch_flops']:>15,} "
            f"{'equal' if row['flops'] == row['torch_flops'] else 'DIFFERENT'}"
        )
        print(f"{row['network']:>18} {row['graph']:<7}{told}", flush=True)
    write_json(arguments.json, facts)


if __name__ == "__main__":
    main()
