"""`tilewright shrink` and `tilewright run`: less memory on a real runtime."""

from pathlib import Path
from typing import Annotated

import typer

from tilewright import api
from tilewright.cli.arguments import CsvOption, JsonOption, ModelArgument, ShapeOption, parse_shapes
from tilewright.cli.common import OVER_BUDGET, note, out, print_json, print_lines
from tilewright.cli.progress import shown_line
from tilewright.errors import OutputError
from tilewright.files import check_arrays_file, check_writable
from tilewright.shrinking import ShrinkResult, parse_budget

SeedOption = Annotated[int, typer.Option(help="Seed of missing weights and of test inputs.")]


def shrink(
    model: ModelArgument,
    memory: Annotated[
        str,
        typer.Option(
            metavar="64MB|60%|smallest",
            help="Budget for activations and scratch during a run (weights come on top): bytes, a "
            "share of what the model needs today, or as little as can be found.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="The ONNX file to write.")
    ],
    measure: Annotated[
        bool,
        typer.Option(
            "--measure", help="Run both models in fresh processes: peak memory, CPU time."
        ),
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE.png", help="Draw memory over time, before and after."),
    ] = None,
    shape: ShapeOption = None,
    seed: SeedOption = 0,
    csv: CsvOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write an ordinary ONNX model with the same results in a fraction of the memory.

    Examples:

      tilewright shrink net.onnx --memory 64MB -o small.onnx --measure

      tilewright shrink fsrcnn@1080x1920 --memory 8% -o small.onnx

    With --measure, a model that takes more than the budget is cut again, for less; where that does
    not help it is written, the last line names both figures, and the exit code is 4.
    """
    parse_budget(memory)  # a mistake in it is told before anything is loaded
    if plot is not None and plot.suffix.lower() != ".png":
        raise OutputError(f"cannot draw '{plot}': give a name that ends in .png")
    check_writable(plot, output, csv)
    loaded = api.load(model, parse_shapes(shape))
    if loaded.path is not None and output.exists() and output.samefile(loaded.path):
        raise OutputError(f"cannot write '{output}': it is the model itself; give another name")
    with shown_line("searching for groups and tiles") as tell:
        result = api.shrink(loaded, memory, output, measure=measure, seed=seed, progress=tell)
    from tilewright.report.shrunk import groups_table, shrunk_json

    if result.weights_seeded:
        what = "zoo networks have no trained weights"
        if loaded.path is not None:
            missing = ", ".join(name for name in loaded.missing_files if name)
            what = f"weights are not there ({missing or 'cleared'})"
        note(f"{what}: seeded random ones were used, and written to {output}")

    if plot is not None:
        from tilewright.report.plots import plot_memory

        plot_memory(result, f"{loaded.name}: memory during a run in onnxruntime", plot)
    if csv is not None:
        result.to_csv(csv)
    if as_json:
        print_json(shrunk_json(result))
        _end(result)
        return
    if result.shrunk.groups:
        out.print(groups_table(result))
    elif result.budget is None:
        out.print("No cut was found that needs less memory: nothing was cut.")
    else:
        out.print("The model is within the budget as it is: nothing was cut.")
    print_lines(result.headline())
    out.print(f"written: {output}   (run it with: tilewright run {output})", soft_wrap=True)
    _end(result)


def _end(result: ShrinkResult) -> None:
    """A budget that was missed ends with an exit code of its own, behind all output."""
    if result.missed is not None:
        note(f"OVER BUDGET: {result.missed}")
        raise typer.Exit(OVER_BUDGET)


def run(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="An .onnx file.")],
    inputs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.npz", help="Arrays by input name; seeded random ones if not given."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE.npz", help="Where to store the outputs."),
    ] = None,
    shape: ShapeOption = None,
    seed: Annotated[int, typer.Option(help="Seed of the random inputs.")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="Threads onnxruntime may use.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Run a model in onnxruntime with the settings under which tiling saves memory.

    Prints the peak memory and CPU time of the run, and what came out.
    """
    check_arrays_file(output)
    shapes = parse_shapes(shape)
    with shown_line("running the model"):
        outcome = api.run(model, inputs, output, shapes=shapes, seed=seed, threads=threads)
    if as_json:
        print_json(
            {
                "outputs": {
                    name: {"shape": list(array.shape), "dtype": str(array.dtype)}
                    for name, array in outcome.outputs.items()
                },
                "peak_bytes": outcome.peak_bytes,
                "cpu_seconds": outcome.cpu_seconds,
            }
        )
        return
    for name, array in outcome.outputs.items():
        out.print(f"{name}: {array.dtype}{list(array.shape)}")
    print_lines(outcome.headline())
    if output is not None:
        out.print(f"written: {output}")
