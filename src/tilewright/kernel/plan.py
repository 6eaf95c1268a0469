"""Plan a kernel: the one function behind the command line and `tilewright.kernel(...)`."""

import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from tilewright.graph.graph import Graph
from tilewright.kernel.assess import Assessment, Model, floor_check
from tilewright.kernel.execute import Counts, Executed, count, count_difference, execute
from tilewright.kernel.from_graph import problem_of
from tilewright.kernel.ladder import Row, ladder, last_rung
from tilewright.kernel.nest import Nest
from tilewright.kernel.nest_file import read_nest
from tilewright.kernel.problem import KernelError, Problem, element_type, matmul_problem
from tilewright.kernel.search import Found, search
from tilewright.kernel.target import Target, target_of
from tilewright.kernel.timeline import MOST_STEPS, Simulated, simulated
from tilewright.machine.load import load_machine
from tilewright.machine.machine import Machine
from tilewright.tables import Shown, Table

COUNTED_MACS = 10**14  # beyond, not even empty tensors are made
WHOLE_MACS = 500_000_000  # problems up to this size are executed whole by default


@dataclass(frozen=True, slots=True)
class Proof:
    """A run of the nest: all of it, or its first rows where the problem is large. `counts` are of
    the whole problem's loops; None where these are too many to walk through."""

    executed: Executed
    counts: Counts | None
    rows: int
    of_rows: int


@dataclass(frozen=True, repr=False)
class KernelPlan(Shown):
    """A planned kernel. `found` is what a search found, `proof` the run that checked it."""

    problem: Problem
    machine: Machine
    target: Target
    assessment: Assessment
    found: Found | None
    proof: Proof | None

    def headline(self) -> list[str]:
        """The kernel, whether it is legal, its time, and what binds it."""
        given = self.assessment
        lines = [
            f"{self.problem.text()} on {self.machine.name}: nest '{given.nest.name}', "
            f"{given.seconds * 1e6:.1f} us, bound by {given.binding}"
        ]
        return lines + [f"illegal: {broken.text}" for broken in given.violations]

    def as_table(self) -> Table:
        """Busy time of every engine, the busiest first."""
        given = self.assessment
        rows = tuple(
            (name, seconds * 1e6, seconds / given.seconds if given.seconds else 0.0)
            for name, seconds in given.ranked
        )
        return Table("engines", ("engine", "busy_us", "share"), rows)

    @cached_property
    def ladder(self) -> tuple[Row, ...]:
        """The ladder's rungs; those of the published problem with what was measured."""
        return ladder(self.problem, self.target)

    @cached_property
    def simulated(self) -> Simulated | None:
        """The kernel's tasks on the engines, with their times; None for a nest that is illegal or
        has too many tasks."""
        given = self.assessment
        return simulated(given) if given.legal and given.steps <= MOST_STEPS else None


def plan_kernel(
    kind: str = "conv2d",
    *,
    image: str | tuple[int, int, int] | None = None,
    out_channels: int | None = None,
    kernel: str | int | tuple[int, int] = 3,
    pool: int = 1,
    batch: int = 1,
    pad: int = 0,
    stride: str | int | tuple[int, int] = 1,
    bias: bool = True,
    relu: bool = False,
    size: str | tuple[int, int, int] | None = None,
    graph: Graph | None = None,
    node: str | None = None,
    dtype: str = "fp16",
    on: str | Path | Machine = "trn2",
    nest: Nest | str | Path | None = None,
    searched: bool = False,
    claim_us: float | None = None,
    check: bool | None = None,
) -> KernelPlan:
    """Plan one kernel on a Trainium-like core, and check it by running it in numpy.

    `kind` is conv2d (`image` as channels x height x width, `out_channels`, ...; or `graph` and
    `node`) or matmul (`size` as M x K x N). The nest is the one given, the one found where
    `searched`, else the last rung of the ladder. `check` runs all of it (True), nothing (False), or
    the first rows of a large problem (None).
    """
    elements = element_type(dtype)
    machine = on if isinstance(on, Machine) else load_machine(on)
    target = target_of(machine)
    if kind == "matmul":
        if size is None:
            raise KernelError("say what is multiplied: size (--size) as MxKxN")
        rows, depth, cols = sizes(size, "a product", "MxKxN such as 512x256x1024")
        problem = matmul_problem(rows, depth, cols, elements)
    elif kind != "conv2d":
        raise KernelError(f"kernels are conv2d or matmul, not '{kind}'")
    elif graph is not None:
        problem = problem_of(graph, node or "", elements)
    else:
        if image is None:
            raise KernelError(
                "say what is convolved: image (--in) as CxHxW, or model and node (--from, --node)"
            )
        channels, height, width = sizes(image, "an image", "CxHxW such as 256x224x224")
        outs = channels if out_channels is None else out_channels
        problem = Problem(
            *(channels, height, width, outs, _pair(kernel, "kernel size")),
            *(batch, pool, elements, bias, relu, (pad, pad, pad, pad)),
            strides=_pair(stride, "stride"),
        )
    found = None
    if searched:
        found = search(problem, target)
        assessment = found.best
    else:
        chosen = nest if isinstance(nest, Nest) else None
        chosen = chosen or (
            last_rung(problem, target) if nest is None else read_nest(Path(str(nest)))
        )
        assessment = Model(problem, target).assess(chosen)
    if claim_us is not None:
        floor_check(problem, target, assessment.nest.compute, claim_us * 1e-6)
    proof = None
    if check is not False and assessment.legal:
        proof = prove(assessment, whole=bool(check))
    return KernelPlan(problem, machine, target, assessment, found, proof)


def prove(assessment: Assessment, whole: bool = False) -> Proof:
    """Run a nest, or its first rows; and walk through all of its loops, counting."""
    problem, nest, target = assessment.problem, assessment.nest, assessment.target
    if whole or problem.macs <= WHOLE_MACS:
        executed = execute(assessment)
        return Proof(executed, executed.counts, problem.rows, problem.rows)
    counts = None
    if assessment.steps <= MOST_STEPS and problem.macs <= COUNTED_MACS:
        counts = count(problem, nest)
        difference = count_difference(assessment, counts)
        if difference:
            raise KernelError(f"nest '{nest.name}': executed and counted differ: {difference}")
    rows = min(problem.rows, nest.block_rows + nest.tile_rows)
    below = problem.pads[2] if rows == problem.rows else 0
    top, left, _, right = problem.pads
    height = max(1, (rows - 1) * problem.strides[0] + problem.kernel[0] - top - below)
    first = replace(problem, height=height, pads=(top, left, below, right), batch=1)
    executed = execute(Model(first, target).assess(nest))
    return Proof(executed, counts, rows, problem.rows)


def sizes(given: str | tuple[int, int, int], what: str, form: str) -> tuple[int, int, int]:
    """Three extents, as text or as they are."""
    if isinstance(given, tuple):
        return given
    match = re.fullmatch(r"\s*(-?\d+)\s*x\s*(-?\d+)\s*x\s*(-?\d+)\s*", given)
    if match is None:
        raise KernelError(f"'{given}' is no size of {what}: write {form}")
    first, second, third = map(int, match.groups())
    return first, second, third


def _pair(given: str | int | tuple[int, int], what: str) -> tuple[int, int]:
    """Height and width, as text or as they are."""
    if isinstance(given, tuple):
        return given
    parts = str(given).split("x")
    if len(parts) > 2 or not all(re.fullmatch(r"-?\d+", part.strip()) for part in parts):
        raise KernelError(f"'{given}' is no {what}: write 3 or 3x5")
    return int(parts[0]), int(parts[-1])
