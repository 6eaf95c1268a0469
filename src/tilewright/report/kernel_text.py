"""A planned kernel for the terminal."""

from collections.abc import Iterator

from rich.table import Table

from tilewright.kernel.assess import Assessment
from tilewright.kernel.ladder import LadderRow
from tilewright.kernel.listing import listing_text
from tilewright.kernel.nest import KERNEL
from tilewright.kernel.plan import KernelPlan
from tilewright.kernel.rules import RULES
from tilewright.kernel.search import FoundNest
from tilewright.kernel.target import CoreTarget
from tilewright.report.kernel_facts import engine_cycles, proof_text, psum_flushes
from tilewright.units import format_bytes

FIGURES = ("measured us", "modelled us", "error", "interval us", "DMAs", "MB")
HEADS = ("rung", "type", "pool", "image", *FIGURES, "binding", "fitted")  # of the ladder


def kernel_lines(plan: KernelPlan) -> Iterator[str]:
    """The whole report of one nest."""
    given = plan.assessment
    yield f"{plan.problem.text()} on {plan.machine.name}: nest '{given.nest.name}'"
    yield from ("", *listing_text(given).splitlines(), "")
    for broken in given.violations:
        yield f"ILLEGAL, rule {broken.rule} ({RULES[broken.rule]}): {broken.text}"
    yield from _time(given)
    if plan.simulated is not None:
        simulated = plan.simulated.seconds * 1e6
        yield f"simulated as written, with its buffers: {simulated:.1f} us"
    yield from _ledger(given)
    moves = ", ".join(
        f"{t.operand} {t.count:,} ({format_bytes(t.bytes)}, runs of {t.run_bytes:,} B)"
        for t in given.transfers
    )
    yield f"DMAs {given.dma_count:,}, {format_bytes(given.dma_bytes)}: {moves}"
    work = ", ".join(f"{w.what} {w.count:,}" for w in given.work)
    yield f"instructions: {work}; PSUM flushes {psum_flushes(given):,}"
    for lint in given.lints:
        yield f"lint, {lint.operand}: {lint.text}"
    if plan.found is not None:
        yield ""
        yield from search_lines(plan.found)
    if plan.proof is not None:
        yield proof_text(plan.proof)


def _floor(given: Assessment) -> str:
    """The floor in microseconds; that of a small problem is a part of one."""
    us = given.floor * 1e6
    return f"{us:.1f}" if us >= 10 else f"{us:.2g}" if us >= 0.01 else "less than 0.01"


def _time(given: Assessment) -> Iterator[str]:
    us = given.seconds * 1e6
    interval = ""
    if given.high > given.low * 1.001:
        interval = (
            f" (from {given.low * 1e6:.1f} if the compiler removes redundant loads to "
            f"{given.high * 1e6:.1f} as written)"
        )
    yield f"predicted {us:.1f} us{interval}; tensor-engine floor {_floor(given)} us"
    cycles = engine_cycles(given)
    busy = ", ".join(f"{n} {s * 1e6:.1f} us ({cycles[n]:,} cycles)" for n, s in given.ranked)
    yield f"engines: {busy}"
    yield f"binding: {given.ranked[0][0]}, next {given.ranked[1][0]}"


def _ledger(given: Assessment) -> Iterator[str]:
    held = ", ".join(f"{h.name} {h.copies}x{h.bytes:,} B" for h in given.ledger.sbuf)
    share = given.ledger.sbuf_bytes / given.target.sbuf_bytes
    yield (
        f"SBUF {given.ledger.sbuf_bytes:,} of {given.target.sbuf_bytes:,} B per partition "
        f"({share:.0%}): {held}"
    )
    places = ", ".join(
        f"{place} {given.ledger.at(given.nest, place):,}" for place in (KERNEL, *given.nest.order)
    )
    yield f"  held inside each loop: {places}"
    banks = ", ".join(f"{h.name} {h.total}" for h in given.ledger.banks)
    yield f"PSUM {given.ledger.psum_banks} of {given.target.psum_banks} banks: {banks}"


def search_lines(found: FoundNest) -> Iterator[str]:
    """What a search found and what each change buys."""
    yield (
        f"search: {found.looked_at:,} nests looked at, {found.legal:,} legal; "
        f"{found.best.high * 1e6:.1f} us, the ladder's last rung {found.start.high * 1e6:.1f} us "
        f"({found.speed_up:.2f}x); {format_bytes(found.best.dma_bytes)} moved instead of "
        f"{format_bytes(found.start.dma_bytes)}"
    )
    above = found.above_floor
    times = f"{above:.1%} above" if above < 10 else f"{above + 1:,.0f} times"
    yield f"  {times} the tensor-engine floor of {_floor(found.best)} us: {found.held_back_by()}"
    if found.changes:
        yield (
            "  its choices, by the longer of predicted and simulated time, "
            f"{found.judged * 1e6:.1f} us for all of them (of nests that are as fast to half a "
            "percent the one that moves least was taken: a choice may buy only that)"
        )
    for change in found.changes:
        parts = [f"  {change.name}: {change.before} -> {change.after}"]
        if change.alone is not None:
            parts.append(f"alone {change.alone * 1e6:.1f} us")
        if change.without is not None:
            moved = format_bytes(change.without_bytes or 0)
            parts.append(f"without it {change.without * 1e6:.1f} us, {moved} moved")
        yield "; ".join(filter(None, [*parts, change.rule]))
    steps = " -> ".join(
        f"{name} {'(illegal alone)' if s is None else f'{s * 1e6:.1f}'}" for name, s in found.steps
    )
    if steps:
        begin = "illegal" if found.start_judged is None else f"{found.start_judged * 1e6:.1f}"
        yield f"  one after the other, us: {begin} -> {steps}"


def ladder_table(rows: tuple[LadderRow, ...]) -> Table:
    """The ladder, measured beside modelled."""
    table = Table(title="The ladder", title_justify="left")
    for name in HEADS:
        table.add_column(name, justify="right" if name in FIGURES else "left")
    for row in rows:
        table.add_row(*ladder_cells(row))
    return table


def ladder_cells(row: LadderRow) -> tuple[str, ...]:
    """One rung as text."""
    given, measured = row.assessment, row.measured
    interval = f"{given.low * 1e6:.0f}-{given.high * 1e6:.0f}"
    found = ""  # a figure, about a figure, a range, or nothing
    if measured is not None:
        found = f"{'~' if measured.about else ''}{measured.low:g}"
        if measured.low != measured.high:
            found = f"{measured.low:g}-{measured.high:g}"
    return (
        row.rung,
        given.problem.dtype,
        str(given.problem.pool),
        given.problem.image,
        found,
        f"{given.seconds * 1e6:.1f}",
        "" if row.error is None else f"{row.error:+.1%}",
        interval if given.high > given.low * 1.001 else "",
        f"{given.dma_count:,}",
        f"{given.dma_bytes / 1e6:.1f}",
        given.binding,
        "" if measured is None else "yes" if measured.fit else "no",
    )


def ladder_markdown(rows: tuple[LadderRow, ...]) -> str:
    """The ladder as a table of docs/ladder.md."""
    lines = [HEADS, ("---",) * len(HEADS), *(ladder_cells(row) for row in rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def parameter_lines(target: CoreTarget) -> Iterator[str]:
    """The calibration, parameter by parameter."""
    for p in target.calibration.parameters:
        yield f"{p.name} = {p.value:g} {p.unit} ({p.kind}): {p.source}"
