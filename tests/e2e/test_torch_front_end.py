"""Torch networks: the same kernels from every graph, torch's own MACs, torch's own numbers."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.support import torch_networks as networks
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from tilewright import api
from tilewright.errors import ModelError
from tilewright.execute.runtime import run
from tilewright.frontend.save import save_onnx
from tilewright.model import load_torch

NETWORKS = networks.catalogue()
HERE = Path(networks.__file__)


def torch_flops(module: torch.nn.Module, inputs: networks.Inputs) -> int:
    """FLOPs of products as torch itself counts them, on tensors without numbers."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    fakes = [mode.from_tensor(tensor) for tensor in inputs]
    counter = FlopCounterMode(display=False)
    torch.backends.mha.set_fastpath_enabled(False)  # it hides the products of attention modules
    with counter, torch.no_grad(), sdpa_kernel(SDPBackend.MATH), mode:
        module(*fakes)
    return counter.get_total_flops()


@pytest.mark.parametrize("name", NETWORKS)
def test_macs_are_those_of_the_flop_counter(name: str) -> None:
    module, inputs = NETWORKS[name]
    expected = torch_flops(module, inputs)
    assert expected > 0
    # Both graphs of the table's networks are counted below.
    tabled = name in ("resnet18", "mobilenet_v2", "resnet50")
    for graph in ("module",) if tabled else ("module", "aten"):
        found = api.partition(module, inputs=inputs, graph=graph).partition
        assert found.work.flops_matmul == expected, graph


@pytest.mark.parametrize("graph", ["module", "aten", "decomposed"])
@pytest.mark.parametrize(
    ("name", "operators", "kernels", "external", "internal"),
    [
        ("resnet18", 69, 32, 78_581_824, 19_167_232),
        ("mobilenet_v2", 153, 66, 70_677_824, 51_135_616),
    ],
)
def test_published_table_from_every_graph(
    name: str, operators: int, kernels: int, external: int, internal: int, graph: str
) -> None:
    module, inputs = NETWORKS[name]
    if graph == "decomposed":
        program = torch.export.export(module, inputs, strict=False).run_decompositions()
        found = api.partition(program).partition
    else:
        found = api.partition(module, inputs=inputs, graph=graph).partition
    assert (len(found.operators), len(found.kernels)) == (operators, kernels)
    assert (found.traffic.external, found.traffic.internal) == (external, internal)
    assert found.traffic.op_by_op == external + 2 * internal


@pytest.mark.parametrize("name", ["vit", "bert", "gpt2_block", "sd_down_block"])
def test_transformers_fuse_alike_on_both_graphs(name: str) -> None:
    module, inputs = NETWORKS[name]
    found = [api.partition(module, inputs=inputs, graph=g).partition for g in ("module", "aten")]
    for part in found:
        assert "Attention" in {kernel.label for kernel in part.kernels}
    labels = [sorted(k.label for k in part.kernels if k.work.macs) for part in found]
    assert labels[0] == labels[1]


class WithModule(torch.nn.Module):
    """A block around torch's own attention module, which FX does not look into."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(32)
        self.attention = torch.nn.MultiheadAttention(32, 4, batch_first=True)
        self.up, self.down = torch.nn.Linear(32, 64), torch.nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


def test_a_module_of_several_products_counts_as_the_functions_it_calls() -> None:
    module, inputs = WithModule(), (torch.zeros(1, 10, 32),)
    found = [api.partition(module, inputs=inputs, graph=g).partition for g in ("module", "aten")]
    assert found[0].work.flops_matmul == torch_flops(module.eval(), inputs)
    assert len(found[0].kernels) == len(found[1].kernels)
    assert found[0].traffic.external == found[1].traffic.external
    assert [k.label for k in found[0].kernels] == [k.label for k in found[1].kernels]


class RootMeanSquare(torch.nn.Module):
    """A norm as language models write it, with casts that change nothing in float32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.to(torch.float32)
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * y.to(x.dtype)


class Decoder(torch.nn.Module):
    """A block of a language model: rotated queries and keys, fewer heads of keys, gated MLP, and
    attention in plain steps; written with matmul or with einsum."""

    def __init__(self, einsum: bool = False) -> None:
        super().__init__()
        self.before, self.between = RootMeanSquare(32), RootMeanSquare(32)
        self.q, self.k, self.v, self.o = (
            torch.nn.Linear(32, n, bias=False) for n in (32, 16, 16, 32)
        )
        self.gate, self.up, self.down = (
            torch.nn.Linear(n, m, bias=False) for n, m in ((32, 64), (32, 64), (64, 32))
        )
        self.einsum = einsum
        self.register_buffer("rates", torch.arange(4) / 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.before(x)
        q, k, v = (
            p(y).view(1, 6, heads, 8).transpose(1, 2)
            for p, heads in ((self.q, 4), (self.k, 2), (self.v, 2))
        )
        with torch.no_grad():
            angle = torch.arange(6)[:, None] * self.rates
            angle = torch.cat((angle, angle), -1)
        q, k = (
            t * angle.cos() + torch.cat((-t[..., 4:], t[..., :4]), -1) * angle.sin() for t in (q, k)
        )
        k, v = (t[:, :, None].expand(1, 2, 2, 6, 8).reshape(1, 4, 6, 8) for t in (k, v))
        if self.einsum:
            scores = torch.einsum("bhid,bhjd->bhij", q, k) * 8**-0.5
        else:
            scores = torch.matmul(q, k.transpose(2, 3)) * 8**-0.5
        scores = scores + torch.full((6, 6), -1e9).triu(1)
        weights = torch.softmax(scores, -1, dtype=torch.float32).to(x.dtype)
        weights = torch.nn.functional.dropout(weights, 0.0, self.training)
        einsum = torch.einsum
        z = einsum("bhij,bhjd->bhid", weights, v) if self.einsum else torch.matmul(weights, v)
        x = x + self.o(z.transpose(1, 2).reshape(1, 6, 32))
        y = self.between(x)
        return x + self.down(torch.nn.functional.silu(self.gate(y)) * self.up(y)).reshape_as(x)


@pytest.mark.parametrize("einsum", [False, True])
@pytest.mark.parametrize("graph", ["module", "aten"])
def test_a_decoder_block_is_attention_norms_and_products(graph: str, einsum: bool) -> None:
    module, inputs = Decoder(einsum).eval(), (torch.zeros(1, 6, 32),)
    found = api.partition(module, inputs=inputs, graph=graph).partition
    labels = [kernel.label for kernel in found.kernels]
    assert labels.count("Attention") == 1 and labels.count("RMSNorm") == 2
    assert not {"MatMul", "Softmax", "Sqrt", "GlobalAveragePool"} & set(labels)
    assert found.work.flops_matmul == torch_flops(module, inputs)
    blocks = {k.label for k in api.partition(found.graph, level="block").partition.kernels}
    assert "AttentionBlock" in blocks or "Attention" in blocks


def runnable() -> dict[str, tuple[torch.nn.Module, networks.Inputs]]:
    """Small networks with numbers."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    return {
        "residual": (networks.Residual(16, 32, 2, 1, bottleneck=False), (random(1, 16, 12, 12),)),
        "inverted": (networks.Inverted(16, 16, 1, 4, 3, True), (random(1, 16, 10, 10),)),
        "convnext": (networks.ConvNeXtBlock(16), (random(1, 16, 8, 8),)),
        "norms in front": (networks.TransformerBlock(32, 4, causal=True), (random(1, 9, 32),)),
        "windows": (networks.WindowBlock(24, 3, 4, 2), (random(1, 8, 8, 24),)),
        "down": (
            networks.DownBlock(64),
            (random(1, 64, 8, 8), random(1, 1280), random(1, 7, 768)),
        ),
    }


@pytest.mark.parametrize("name", runnable())
def test_numbers_are_those_of_torch(name: str, tmp_path: Path) -> None:
    module, inputs = runnable()[name]
    module.eval()
    with torch.no_grad():
        expected = module(*inputs).numpy()
    model = load_torch(module, inputs, graph="aten", runnable=True)
    path = tmp_path / "net.onnx"
    save_onnx(model.graph, path)
    feeds = {n: t.numpy() for n, t in zip(model.graph.inputs, inputs, strict=True)}
    (result,) = run(path, feeds).values()
    np.testing.assert_allclose(result, expected, rtol=2e-4, atol=2e-5)


def test_a_torch_module_is_planned_tiled_and_shrunk(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text(
        "import torch\nfrom torch import nn\n\ndef build():\n"
        "    torch.manual_seed(0)\n"
        "    net = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(),"
        " nn.Conv2d(16, 8, 3, padding=1))\n"
        "    return net, (torch.zeros(1, 3, 32, 32),)\n"
    )
    name = f"{file}:build"
    model = api.load(name)
    assert [node.kind for node in model.graph.nodes] == ["Conv", "Relu", "Conv"]
    tiles = api.tile(
        model.graph, ["H=4"], first=model.graph.nodes[0].name, last=model.graph.nodes[2].name
    )
    assert tiles.recompute_ratio > 0
    small = tmp_path / "small.onnx"
    result = api.shrink(model, 0.8, small)
    assert result.difference.max_rel_error <= 1e-5 and small.exists()
    from tilewright.machine.load import load_machine

    planned = api.plan(model, load_machine("npu-2.7"), layer_by_layer=True).planned
    assert planned.numbers is not None


BAD = """
import torch
from torch import nn

class Chooses(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
    def forward(self, x):
        if x.sum() > 0:
            return self.conv(x)
        return x

def chooses():
    return Chooses(), (torch.zeros(1, 3, 8, 8),)

def wrong_shape():
    return nn.Conv2d(3, 8, 3), (torch.zeros(1, 4, 8, 8),)

def fails():
    raise ValueError("no such file")

def text():
    return "a text"

class Picks(nn.Module):
    def forward(self, x):
        return x[x > 0].sum()

def picks():
    return Picks(), (torch.zeros(4, 4),)

def large_kernel():
    return nn.Conv2d(3, 8, 9), (torch.zeros(1, 3, 5, 5),)

def guessed():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8, 2))

def made_wrong():
    return nn.Linear(2, -3)

two = 2
"""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("chooses", ("control flow depends on the data", "bad.py:10")),
        ("wrong_shape", ("wrong shape", "3 channels")),
        ("fails", ("ValueError: no such file", "bad.py:21")),
        ("made_wrong", ("RuntimeError: ", "negative dimension", "bad.py:40")),
        ("picks", ("a result of 'index'", "depends on the data")),
        ("large_kernel", ("(5 x 5)", "Kernel size can't be greater")),
        ("guessed", ("is taken to be 1x3x224x224", "--shape")),
        ("text", ("no torch module but a str",)),
        ("two", ("no function and no module but an int",)),
        ("absent", ("has no 'absent'", "chooses")),
    ],
)
def test_bad_modules_give_one_line(
    name: str, words: tuple[str, ...], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.py").write_text(BAD)
    with pytest.raises(ModelError) as error:
        api.partition(f"{tmp_path / 'bad.py'}:{name}")
    assert all(word in str(error.value) for word in words), str(error.value)
    assert "\n" not in str(error.value)
    assert capfd.readouterr() == ("", ""), "nothing of torch's own log beside it"


@pytest.mark.parametrize(
    "job",
    [
        ("plan", "--on", "mcu", "--layer-by-layer", "--no-verify"),
        ("tile", "--node", "0", "--split", "H=2"),
        ("show", "model"),
        ("partition",),
    ],
)
def test_a_guessed_input_is_told(job: tuple[str, ...], succeeds, caplog, tmp_path: Path) -> None:
    """By every command, and by the library; nothing is said where the shape is given."""
    file = tmp_path / "net.py"
    file.write_text("from torch import nn\ndef build(): return nn.Sequential(nn.Conv2d(3, 4, 3))\n")
    name = f"{file}:build"
    arguments = (*job, name) if job[0] == "show" else (job[0], name, *job[1:])
    told = (
        "no example inputs: input is taken to be 1x3x224x224; inputs, or shapes (--shape input=.."
    )
    assert succeeds(*arguments).err.count(told) == 1
    assert "example" not in succeeds(*arguments, "--shape", "input=1x3x16x16").err
    api.load(name)
    assert any(told in record.message for record in caplog.records)


def test_missing_torch_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(BAD)
    code = "import sys; sys.modules['torch'] = None\nfrom tilewright.cli import main; main()"
    args = [sys.executable, "-c", code, "partition", "bad.py:chooses"]
    done = subprocess.run(args, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert (
        done.stderr.startswith("tilewright: torch is not installed")
        and done.stderr.count("\n") == 1
    )


def test_command_on_a_torch_file(succeeds: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text(
        "import torch\nfrom torch import nn\n"
        "def build():\n    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())\n"
    )
    found = succeeds("partition", f"{file}:build", "--json", "--shape", "input=1,3,32,32").json
    assert (found["operators"], found["kernels"]) == (3, 1)
    assert found["macs"] == 8 * 3 * 9 * 30 * 30
