"""`tilewright plan --mapping`: a network on the cores of an accelerator file."""

from pathlib import Path

from tilewright import api
from tilewright.cli.arguments import parse_shapes
from tilewright.cli.common import end_unverified, note, out, print_json, print_lines
from tilewright.cli.plan_options import Asked
from tilewright.cli.progress import progress_line
from tilewright.errors import TilewrightError
from tilewright.files import check_writable

MODES = ("fused", "lbl")


def plan_on_cores(asked: Asked, mapping: Path) -> None:
    """Plan, tell, and write the files."""
    from tilewright.manycore.output import check_target
    from tilewright.manycore.told import cores_table, memories_table

    never = ("plan_file", "patterns", "dtype", "ablation", "explain", "print_after", "memory_limit")
    asked.refuse("is not for --mapping", *never)
    mode = asked.mode or ("lbl" if asked.layer_by_layer else "fused")
    if asked.layer_by_layer and mode != "lbl":
        raise TilewrightError(f"give either --mode {mode} or --layer-by-layer, not both")
    if mode not in MODES:
        raise TilewrightError(f"--mode is '{mode}': give fused or lbl")
    effort, folder, csv = asked.searched, asked.folder, asked.csv
    if folder is not None:
        check_target(folder, force=asked.force)
    check_writable(csv)
    with progress_line("planning") as tell:
        found = api.allocate(
            asked.model,
            asked.machine,
            mapping,
            layer_by_layer=mode == "lbl",
            core_costs=asked.core_costs,
            final_write=not asked.no_final_write,
            open_tiles=asked.open_tiles,
            objective=asked.objective,
            effort=effort,
            verify=not asked.no_verify,
            seed=asked.seed,
            shapes=parse_shapes(asked.shape),
            progress=tell,
        )
        if folder is not None:
            tell("writing files")
            found.save(folder, force=asked.force)
    if csv is not None:
        found.to_csv(csv)
    for text in found.plan.notes:
        note(text)
    if asked.as_json:
        print_json(found.summary)
        end_unverified(found.failure, found.plan.unproven)
        return
    print_lines(found.headline())
    out.print(cores_table(found.plan))
    out.print(memories_table(found.plan))
    if folder is not None:
        out.print(f"written: {folder}")
    end_unverified(found.failure, found.plan.unproven)
