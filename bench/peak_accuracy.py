"""Predicted against measured peak memory in onnxruntime, of models as they are and after `shrink`.

    python bench/peak_accuracy.py [MODEL ...] [--share 50%] [--json PATH]

MODEL is a zoo name or a file; open dimensions follow after colons: `det.onnx:x=1x3x640x640`. A
budget that cannot be met is relaxed to the next of 50, 70, 85 and 95 %.
"""

import argparse
import json
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from tilewright import api
from tilewright.errors import BudgetError, TilewrightError
from tilewright.files import save_arrays
from tilewright.frontend.save import save_onnx
from tilewright.frontend.weights import seeded_inputs
from tilewright.graph.graph import Graph
from tilewright.peak import predict_peak
from tilewright.shrink.measure import measure_peak
from tilewright.shrink.shrink import Shrunk, shrink_graph
from tilewright.tiling.cutting import cut_group
from tilewright.tiling.rewrite import tile_graph

MODELS = (
    *("fsrcnn@540x960", "mobilenet_v2@1024x1024", "unet@512x512", "resnet50", "resnet18", "vgg16"),
    *("vit_b16", "bert_base", "sd15_down_block", "rn50_stem"),
)
SHARES = (0.5, 0.7, 0.85, 0.95)


@dataclass(frozen=True, slots=True)
class Row:
    """One graph: predicted and measured peak, and what the prediction cost."""

    model: str
    form: str
    nodes: int
    at: str
    predicted_bytes: int
    measured_bytes: int
    predict_seconds: float

    @property
    def error(self) -> float:
        """Predicted over measured, less one."""
        return self.predicted_bytes / max(1, self.measured_bytes) - 1


def parse_model(text: str) -> tuple[str, dict[str, tuple[int, ...]]]:
    """`det.onnx:x=1x3x640x640` as a name and the shapes of its inputs."""
    name, *shapes = text.split(":")
    pairs = (shape.rpartition("=") for shape in shapes)
    return name, {key: tuple(map(int, extents.split("x"))) for key, _, extents in pairs}


def shrunk(graph: Graph, share: float) -> tuple[float, Shrunk] | None:
    """The network in the smallest share of its memory that the search reaches."""
    for budget in (share, *(s for s in SHARES if s > share)):
        try:
            return budget, shrink_graph(graph, budget)
        except BudgetError:
            continue
    return None


def measured(graph: Graph, model: str, form: str, file: Path | None, folder: Path) -> Row:
    """A graph with numbers, predicted and run; `file` is the user's own, if it can run."""
    start = time.process_time()
    prediction = predict_peak(graph)
    seconds = time.process_time() - start
    inputs, path = folder / "inputs.npz", file or folder / "model.onnx"
    if file is None:
        save_onnx(graph, path)
    save_arrays(seeded_inputs(graph, 0), inputs)
    peak = measure_peak(path, inputs)
    return Row(model, form, len(graph.nodes), prediction.at, prediction.peak, peak, seconds)


def rows_of(text: str, share: float) -> list[Row]:
    """The model as it is and shrunk."""
    name, shapes = parse_model(text)
    model = api.load(name, shapes)
    graph = model.with_numbers(0)
    file = model.path if graph is model.graph and not model.reshaped else None
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        rows = [measured(graph, model.name, "original", file, Path(folder))]
        found = shrunk(model.graph, share)
        if found is not None and found[1].groups:
            groups = [
                cut_group(graph, (graph.index[t.node.name] for t in group.ops), group.splits)
                for group in found[1].groups
            ]
            tiled = tile_graph(graph, groups)
            rows.append(measured(tiled, model.name, f"{found[0]:.0%}", None, Path(folder)))
    return rows


def print_row(row: Row) -> None:
    """One line of the table."""
    print(
        f"| {row.model} | {row.form} | {row.nodes} | {row.predicted_bytes / 1e6:.2f} | "
        f"{row.measured_bytes / 1e6:.2f} | {100 * row.error:+.1f} % | "
        f"{1e6 * row.predict_seconds / max(1, row.nodes):.0f} | {row.at} |",
        flush=True,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("models", nargs="*", default=MODELS, metavar="MODEL")
    parser.add_argument("--share", default="50%", help="budget of the shrunk form")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the rows there too")
    options = parser.parse_args()
    share = float(str(options.share).rstrip("%")) / 100
    print("| model | form | nodes | predicted MB | measured MB | error | us per node | peak at |")
    print("|---|---|---|---|---|---|---|---|")
    rows: list[Row] = []
    for text in options.models:
        try:
            found = rows_of(text, share)
        except TilewrightError as error:
            print(f"| {text} | {error} | | | | | | |", flush=True)
            continue
        for row in found:
            print_row(row)
        rows += found
    if options.json:
        records = [asdict(row) | {"error": row.error} for row in rows]
        options.json.write_text(json.dumps(records, indent=2) + "\n")


if __name__ == "__main__":
    main()
