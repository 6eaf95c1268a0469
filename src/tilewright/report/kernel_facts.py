"""A planned kernel as plain values: for JSON, and for the page."""

from typing import Any

from tilewright.kernel.assess import Assessment
from tilewright.kernel.ladder import LadderRow
from tilewright.kernel.listing import listing, listing_text
from tilewright.kernel.nest import KERNEL
from tilewright.kernel.nest_file import nest_text
from tilewright.kernel.plan import KernelPlan, Proof
from tilewright.kernel.rules import RULES
from tilewright.kernel.search import FoundNest
from tilewright.kernel.target import CoreTarget
from tilewright.tables import picked


def kernel_json(plan: KernelPlan) -> dict[str, Any]:
    """Everything about a kernel, for a program to read."""
    return {
        "problem": plan.problem.text(),
        "machine": plan.machine.name,
        **assessment_json(plan.assessment),
        "simulated_us": _optional(plan.simulated.seconds if plan.simulated else None),
        "executed": proof_json(plan),
        "search": None if plan.found is None else search_json(plan.found),
        "listing": listing_text(plan.assessment).splitlines(),
        "nest_yaml": nest_text(plan.assessment.nest),
    }


def assessment_json(given: Assessment) -> dict[str, Any]:
    """A nest: legality, ledger, transfers, engines, time."""
    ranked = given.ranked
    return {
        "nest": given.nest.name,
        "dtype": given.problem.dtype,
        "operands": given.nest.compute,
        "legal": given.legal,
        "violations": [
            {"rule": broken.rule, "says": RULES[broken.rule], "text": broken.text}
            for broken in given.violations
        ],
        "predicted_us": _us(given.seconds),
        "interval_us": [_us(given.low), _us(given.high)],
        "floor_us": _us(given.floor),
        "binding": given.binding,
        "next_binding": ranked[1][0],
        "engines_us": {name: _us(seconds) for name, seconds in given.engines},
        "engine_cycles": engine_cycles(given),
        **picked(given, "dma_count", "dma_bytes"),
        "transfers": [
            {
                "operand": each.operand,
                "dma_count": each.count,
                **picked(each, "bytes", "run_bytes", "repeats"),
            }
            for each in given.transfers
        ],
        "instructions": [
            {"what": w.what, "engine": w.engine, "count": w.count, "us": _us(w.seconds)}
            for w in given.work
        ],
        "psum_flushes": psum_flushes(given),
        "sbuf": _ledger(given),
        "psum": {
            "banks": given.ledger.psum_banks,
            "of_banks": given.target.psum_banks,
            "held": {held.name: held.total for held in given.ledger.banks},
        },
        "lints": [{"operand": lint.operand, "text": lint.text} for lint in given.lints],
    }


def engine_cycles(given: Assessment) -> dict[str, int]:
    """Busy cycles of each engine, of its own clock; of the queues, of the tensor engine's."""
    clocks = given.target.clocks
    return {name: round(seconds * clocks[name]) for name, seconds in given.engines}


def psum_flushes(given: Assessment) -> int:
    """How often an accumulator leaves PSUM: into sums, or as a finished tile."""
    finished = max(given.count(what) for what in ("bias", "max-pool", "relu", "copy"))
    return given.count("PSUM added up in SBUF") or finished


def _ledger(given: Assessment) -> dict[str, Any]:
    places = (KERNEL, *given.nest.order)
    return {
        "bytes_per_partition": given.ledger.sbuf_bytes,
        "of_bytes": given.target.sbuf_bytes,
        "held": [
            {"buffer": held.name, "at": held.place, "bytes": held.bytes, "copies": held.copies}
            for held in given.ledger.sbuf
        ],
        "over_loops": [{"at": p, "bytes": given.ledger.at(given.nest, p)} for p in places],
    }


def proof_json(plan: KernelPlan) -> dict[str, Any] | None:
    """The run that checked a kernel."""
    proof = plan.proof
    if proof is None:
        return None
    return {
        "rows": proof.rows,
        "of_rows": proof.of_rows,
        "difference": proof.executed.difference,
        "tolerance": proof.executed.tolerance,
        "dma_count": None if proof.counts is None else proof.counts.dma_count,
        "dma_bytes": None if proof.counts is None else proof.counts.dma_bytes,
    }


def proof_text(proof: Proof) -> str:
    """The run in a line."""
    part = "all rows" if proof.rows == proof.of_rows else f"its first {proof.rows} rows"
    seen = "the loops of the whole are too many to be walked through"
    if proof.counts is not None:
        moved = f"{proof.counts.dma_count:,} DMAs and {proof.counts.dma_bytes:,} B"
        seen = f"{moved} counted in the loops, as the ledger says"
    return (
        f"executed in numpy ({part}): differs from the reference by "
        f"{proof.executed.difference:.1e} of the largest number; {seen}"
    )


def search_json(found: FoundNest) -> dict[str, Any]:
    """A search: how much it looked at, and what it changed."""
    return {
        **picked(found, "looked_at", "legal"),
        "last_rung_us": _us(found.start.high),
        "found_us": _us(found.best.high),
        "judged_us": _us(found.judged),
        "speed_up": round(found.speed_up, 4),
        "above_floor": round(found.above_floor, 4),
        "held_back_by": found.held_back_by(),
        "changes": [
            {
                "what": change.name,
                **picked(change, "before", "after"),
                "alone_us": _optional(change.alone),
                "without_us": _optional(change.without),
                "without_bytes": change.without_bytes,
                "note": change.rule,
            }
            for change in found.changes
        ],
        "steps": [{"what": name, "us": _optional(seconds)} for name, seconds in found.steps],
    }


def ladder_json(rows: tuple[LadderRow, ...], target: CoreTarget) -> dict[str, Any]:
    """The ladder, and the parameters it was modelled with."""
    return {
        "rungs": [rung_json(row) for row in rows],
        "parameters": [
            picked(p, "name", "value", "unit", "kind", "source")
            for p in target.calibration.parameters
        ],
    }


def rung_json(row: LadderRow) -> dict[str, Any]:
    """One rung."""
    given, measured = row.assessment, row.measured
    return {
        "name": row.rung,
        **picked(given.problem, "dtype", "pool", "image"),
        "measured_us": None if measured is None else measured.us,
        "modelled_us": _us(given.seconds),
        "interval_us": [_us(given.low), _us(given.high)],
        "fitted": measured is not None and measured.fit,
        "error": None if row.error is None else round(row.error, 4),
        "floor_us": _us(given.floor),
        **picked(given, "dma_count", "dma_bytes", "binding"),
    }


def listing_rows(given: Assessment) -> list[dict[str, Any]]:
    """The listing, line by line."""
    return [
        {
            **picked(line, "depth", "kind", "text", "engine", "count", "bytes", "run"),
            "us": _us(line.seconds),
            "held": line.held,
        }
        for line in listing(given)
    ]


def _optional(seconds: float | None) -> float | None:
    return None if seconds is None else _us(seconds)


def _us(seconds: float) -> float:
    return round(seconds * 1e6, 3)
