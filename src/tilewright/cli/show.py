"""`tilewright show`: what there is."""

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from tilewright import api
from tilewright.cli.arguments import CsvOption, JsonOption, ModelArgument, ShapeOption, parse_shapes
from tilewright.cli.common import out, print_json
from tilewright.report.machines import machine_json
from tilewright.tables import picked
from tilewright.units import format_bytes, format_count, format_frequency, several

app = typer.Typer(
    help="Show operators, zoo models, machines, the keys of machine files, passes, or a model.",
    no_args_is_help=True,
)


@app.command("ops")
def show_ops(as_json: JsonOption = False) -> None:
    """The operators Tilewright can cut, and along which axes; any other one runs whole."""
    from tilewright.graph.ops import SPECS

    rows = [
        {"op": s.kind, "family": s.family, "engine": s.engine.value, "axes": s.axes}
        for s in sorted(SPECS.values(), key=lambda spec: (spec.family, spec.kind))
    ]
    told = f"{len(rows)} operators. Any other operator runs whole, at the border of a group."
    table = Table("operator", "family", "engine", "axes that can be cut")
    _list("operators", rows, as_json, table, told)


def _list(what: str, rows: list[dict[str, Any]], as_json: bool, table: Table, told: str) -> None:
    """Rows as JSON, or as the rows of a table, with a remark below."""
    if as_json:
        print_json({what: rows})
        return
    for row in rows:
        table.add_row(*row.values())
    out.print(table)
    out.print(told)


@app.command("models")
def show_models(as_json: JsonOption = False) -> None:
    """The networks of the zoo."""
    from tilewright.frontend import zoo

    rows = [{"name": n, "description": m.description} for n, m in zoo.MODELS.items()]
    told = "Another input size is part of the name: fsrcnn@1080x1920, bert_base@384."
    _list("models", rows, as_json, Table("name", "what it is"), told)


@app.command("machines")
def show_machines(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="One machine, by name or .yaml file, in full."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """The machines that come with Tilewright; or one of them with where its figures are from."""
    from tilewright.machine.load import list_machines, load_machine
    from tilewright.machine.text import machine_text
    from tilewright.manycore.read_hardware import is_accelerator_file, read_accelerator
    from tilewright.processor.load import is_processor, list_processors, load_processor

    if name is None:
        machines = [load_machine(known) for known in list_machines()]
        processors = [load_processor(known) for known in list_processors()]
        if as_json:
            described = [p.model_dump(exclude_none=True) for p in processors]
            listed = [machine_json(machine) for machine in machines]
            print_json({"machines": listed, "processors": described})
            return
        table = Table("name", "what it is", "cores", "local memory each", "clock", "elements")
        for machine in machines:
            sizes = dict.fromkeys(core.memory.usable for core in machine.cores)
            local = ", ".join(map(format_bytes, sizes))
            clock, cores = format_frequency(machine.clock_hz), str(len(machine.cores))
            table.add_row(machine.name, machine.title, cores, local, clock, machine.dtype)
        out.print(table)
        out.print("A file of your own may extend one of them: `extends: npu-2.7`.")
        others = Table("name", "for `partition` only", "units", "clock", "elements")
        for p in processors:
            clock, types = format_frequency(p.clock), ", ".join(p.rates)
            others.add_row(p.name, p.title, str(p.units), clock, types)
        out.print(others)
        return
    if is_accelerator_file(Path(name)):
        from tilewright.manycore.shown import accelerator_json, accelerator_text

        accelerator = read_accelerator(Path(name))
        found, text = accelerator_json(accelerator), accelerator_text(accelerator)
    elif is_processor(name):
        found, text = load_processor(name).model_dump(exclude_none=True), ""
    else:
        machine = load_machine(name)
        found, text = machine_json(machine), machine_text(machine, sources=True)
    if as_json or not text:  # a processor is shown as its file
        print_json(found)
    else:
        out.print(text, end="", soft_wrap=True)


@app.command("keys")
def show_keys() -> None:
    """Every key of a machine file: what it is, what may stand there, what holds if left out."""
    from tilewright.machine.reference import reference_page

    out.print(reference_page(), end="", soft_wrap=True)


@app.command("commands")
def show_commands() -> None:
    """Every command with its arguments and options, as a page in Markdown."""
    from tilewright.cli.reference import reference_page as commands_page

    out.print(commands_page(), end="", soft_wrap=True)


@app.command("schema")
def show_schema() -> None:
    """A JSON schema of machine files, for editors that check YAML while it is written."""
    from tilewright.machine.reference import editor_schema

    print_json(editor_schema())


@app.command("passes")
def show_passes(as_json: JsonOption = False) -> None:
    """The passes of `tilewright plan`, in order; `--no-PASS` leaves one out."""
    from tilewright.program.pipeline import PASSES, STEPS, description

    rows: list[dict[str, Any]] = [
        {
            "name": step.name,
            "description": description(step),
            **picked(step, "requires", "ensures"),
            "optional": step in PASSES,
        }
        for step in STEPS
    ]
    if as_json:
        print_json({"passes": rows})
        return
    table = Table("pass", "what it does", "ensures")
    for row in rows:
        table.add_row(row["name"], row["description"], row["ensures"])
    out.print(table)


@app.command("model")
def show_model(
    model: ModelArgument,
    shape: ShapeOption = None,
    csv: CsvOption = None,
    as_json: JsonOption = False,
) -> None:
    """The nodes of a model, their results, and how much of it can be cut."""
    from tilewright.files import check_writable
    from tilewright.frontend.idioms import recognise
    from tilewright.graph.ops import costed_by_bytes, macs_of
    from tilewright.model import BYTES_ALONE, coverage

    check_writable(csv)
    loaded = api.load(model, parse_shapes(shape))
    graph, covered = loaded.graph, coverage(loaded.graph)
    idioms = dict(sorted(Counter(idiom.kind for idiom in recognise(graph)).items()))
    if csv is not None:
        loaded.to_csv(csv)
    if as_json:
        print_json(
            {
                "model": loaded.name,
                "inputs": {n: list(graph.types[n].shape) for n in graph.inputs},
                "outputs": list(graph.outputs),
                **picked(covered, "nodes", "tileable_nodes", "macs", "tileable_macs"),
                "tileable_macs_share": covered.tileable_share,
                "whole_operators": list(covered.whole_kinds),
                "costed_by_bytes": list(covered.costed_by_bytes),
                "idioms": idioms,
                "weight_bytes": graph.weight_bytes,
                "weightless": graph.weightless,
            }
        )
        return
    table = Table("node", "operator", "result", "macs")
    for node in graph.nodes:
        results = ", ".join(str(graph.types.get(name, "?")) for name in node.writes)
        macs = macs_of(graph, node)
        alone = BYTES_ALONE if costed_by_bytes(graph, node) else ""
        table.add_row(node.name, node.kind, results, format_count(macs) if macs else alone)
    out.print(table)
    share = "0 of 0" if covered.tileable_share is None else f"{covered.tileable_share:.1%}"
    out.print(
        f"{several(covered.nodes, 'node')}, {format_count(covered.macs)} MACs, "
        f"{share} of them in operators that can be cut; "
        f"weights {format_bytes(graph.weight_bytes)}"
        + (" (numbers not in the file)" if graph.weightless else "")
    )
    if idioms:
        out.print("Recognised: " + ", ".join(f"{kind} {n}" for kind, n in idioms.items()))
    if covered.costed_by_bytes:
        out.print(f"Costed by their bytes alone: {', '.join(covered.costed_by_bytes)}")
    if covered.whole_kinds:
        out.print(f"Run whole: {', '.join(covered.whole_kinds)}")
