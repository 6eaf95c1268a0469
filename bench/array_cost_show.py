"""Prints the tables of array_cost.py, and writes fitted rates into machine files."""

from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from tilewright.machine.parameters import ArrayRate, ChannelwiseForm, DenseForm

_BEGIN, _END = "# calibrated rates: begin", "# calibrated rates: end"
_INDENT = 10


def print_tables(errors: Sequence[dict[str, Any]], reshape: Sequence[dict[str, Any]]) -> None:
    """The tables of docs/accuracy.md."""
    print("Relative error in per cent, median / 90th percentile\n")
    print(
        "| machine | type | kind | rows | shipped | 5-fold held back | in / out channels left out |"
    )
    print("|---|---|---|---|---|---|---|")
    for r in errors:
        left = "-"
        if "held_back" in r:
            left = f"{_pair(r['in_channels_left_out'])}, {_pair(r['out_channels_left_out'])}"
        cells = (r["machine"], r["dtype"], r["kind"], r["rows"], _pair(r["shipped"]))
        print(f"| {' | '.join(map(str, cells))} | {_pair(r.get('held_back'))} | {left} |")
    print("\nHeld back, by shape class (rows)\n")
    print("| machine | type | kind | classes |")
    print("|---|---|---|---|")
    for r in errors:
        classes = r.get("held_back_by_class", {})
        text = ", ".join(f"{name} {_pair(s)} ({s['rows']})" for name, s in classes.items())
        if text:
            print(f"| {r['machine']} | {r['dtype']} | {r['kind']} | {text} |")
    print("\nMatrix product 2048x48x256 in its views, cycles: predictor / model\n")
    for key in dict.fromkeys((r["machine"], r["dtype"]) for r in reshape):
        some = [r for r in reshape if (r["machine"], r["dtype"]) == key]
        views = ", ".join(f"{r['view']} {r['predictor']} / {r['model']}" for r in some)
        print(f"- {key[0]} {key[1]}: {views}")


def _pair(errors: dict[str, float] | None) -> str:
    return "-" if errors is None else f"{errors['median']:.1f} / {errors['p90']:.0f}"


def emit(rates: dict[tuple[str, str], ArrayRate], targets: Path | None) -> None:
    """Prints the rates as machine files have them, or replaces the block in the files."""
    for machine in dict.fromkeys(machine for machine, _ in rates):
        lines = ["rates:"]
        for (owner, dtype), rate in rates.items():
            if owner == machine:
                lines += [f"  {dtype}:", *(f"    {line}" for line in _rate_lines(rate))]
        text = "\n".join(" " * _INDENT + line for line in lines) + "\n"
        if targets is None:
            print(f"# {machine}\n{text}")
            continue
        path = targets / f"{machine}.yaml"
        before, rest = path.read_text().split(_BEGIN)
        note, after = rest.split("\n", 1)[0], rest.split(_END)[1]
        path.write_text(f"{before}{_BEGIN}{note}\n{text}{' ' * _INDENT}{_END}{after}")
        print(f"wrote {path}")


def _rate_lines(rate: ArrayRate) -> list[str]:
    """One line per key; null is written out, to undo what an extended file says."""
    lines: list[str] = []
    for field in fields(rate):
        value = getattr(rate, field.name)
        if isinstance(value, DenseForm | ChannelwiseForm):
            items = [f"{key}: {_text(v)}" for key, v in asdict(value).items()]
            lines += [f"{field.name}:", *(f"  {item}" for item in items)]
        else:
            lines.append(f"{field.name}: {_text(value)}")
    return lines


def _text(value: object) -> str:
    return "null" if value is None else str(value)
