"""Prove: a placed program is validated, executed at its addresses, and compared with onnxruntime on
the untouched model."""

import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from tilewright.errors import VerificationError
from tilewright.execute.compare import compare, compared
from tilewright.execute.runtime import run, session
from tilewright.execute.vm import Executed, VirtualMachine
from tilewright.frontend.save import save_onnx
from tilewright.frontend.weights import seeded_inputs
from tilewright.graph.graph import Array, Graph
from tilewright.machine.machine import Machine
from tilewright.model import Model
from tilewright.planning.judge import proven, run_whole, weights_of
from tilewright.planning.prepare import PLANNED, plannable
from tilewright.planning.result import Arrays, Failure, Numbers, Planned, Verified
from tilewright.program.account import Account
from tilewright.program.place import Placed
from tilewright.program.verify import verify_placed, verify_program
from tilewright.search.progress import Tell, silent

TOLERANCE = 1e-4  # of the largest magnitude of an output
UNPROVEN = "interrupted while it was executed: the plan is validated, its numbers are not compared"


def prove(
    planned: Planned, model: Model, numbered: Graph, seed: int, progress: Tell = silent
) -> Planned:
    """The same with its execution: verified, or with what is wrong. `numbered` is the model's
    network with every weight there, from which the plan was made."""
    placed, machine, graph = planned.placed, planned.machine, planned.graph
    progress("running the original in onnxruntime")
    inputs, zoo = seeded_inputs(numbered, seed), model.name if model.zoo else None
    expected, seeded = reference(model, numbered, inputs), numbered is not model.graph
    numbers = Numbers(seed, zoo, seeded, inputs, weights_of(graph), expected)
    try:
        done = run_tasks(placed, machine, graph.opsets, planned.account, numbers, progress)
    except VerificationError as error:
        cause = "a fault of the program: it is not what was accounted for"
        return replace(planned, numbers=numbers, failure=Failure(str(error), cause=cause))
    # Images one by one have names of their own: what is judged is the network before.
    whole = graph
    if planned.plan.images > 1:
        plan = planned.plan
        whole = plannable(numbered, machine, plan.dtype, plan.rewrites).graph
    outcome = proven(numbered, whole, numbers, done.outputs, TOLERANCE)
    if outcome.same and outcome.rounded:
        # A saved run is verified later without the original: against what was judged here.
        numbers = replace(numbers, expected=done.outputs, steps=outcome.difference)
        told = f"verified by steps: {outcome.told()}"
        planned = replace(planned, notes=(*planned.notes, told))
    elif not outcome.same:
        # A saturated output can magnify other orders of summation: the operators as they are
        # written decide.
        progress("running the original in onnxruntime, its optimiser off")
        expected = reference(model, numbered, numbers.inputs, optimise=False)
        as_written = compared(expected, done.outputs, TOLERANCE)
        numbers = replace(numbers, expected=expected, as_written=True)
        if not as_written.same:
            # Steps of a quantised network say more than the outputs that followed from them.
            worst = outcome if outcome.failure and outcome.failure.cause else as_written
            return replace(planned, numbers=numbers, failure=worst.failure)
        outcome = as_written
    planned = replace(planned, notes=(*planned.notes, *_not_finite(expected)))
    return replace(planned, numbers=numbers, verified=Verified(outcome.difference, done.tasks))


def _not_finite(expected: Arrays) -> Iterator[str]:
    """What is said of outputs of the original that are no numbers to compare."""
    for name, array in expected.items():
        lost = int(np.count_nonzero(~np.isfinite(array))) if array.dtype.kind == "f" else 0
        if lost:
            text = f"{lost} of {array.size} numbers are infinite or NaN, in onnxruntime too"
            yield f"output '{name}': {text}; the others were compared"


def validate(placed: Placed, machine: Machine) -> None:
    """Raise `VerificationError` where a validator finds a fault in a placed program."""
    verify_program(placed.program, machine)
    verify_placed(placed, machine)


def agreed(done: Executed, numbers: Numbers) -> Verified:
    """The proof that an execution gave the right numbers; raise where it did not."""
    found = compare(numbers.expected, done.outputs, TOLERANCE)
    return Verified(numbers.steps or found, done.tasks)


def run_tasks(
    placed: Placed,
    machine: Machine,
    opsets: Mapping[str, int],
    account: Account,
    numbers: Numbers,
    progress: Tell = silent,
) -> Executed:
    """Run the tasks at their addresses; raise unless the bytes they move are those accounted."""
    runs = VirtualMachine(placed, machine, opsets.get("", 13), partial(run_whole, opsets))
    done: Executed = runs.run(numbers.inputs, numbers.weights, executing(placed, progress))
    main = machine.main_memory.name
    counted = (done.read_bytes[main], done.write_bytes[main])
    listed = (account.dram_read_bytes, account.dram_write_bytes)
    if counted != listed:
        raise VerificationError(
            f"the virtual machine read and wrote {counted} bytes of {main}, "
            f"the task list says {listed}"
        )
    return done


def executing(placed: Placed, progress: Tell) -> Callable[[float], None]:
    """Tells how far the execution of a program is."""
    what = f"executing {len(placed.program.tasks)} tasks on the virtual machine"
    return lambda share: progress(what, share)


def reference(
    model: Model, numbered: Graph, inputs: Arrays, *, optimise: bool = True
) -> dict[str, Array]:
    """What onnxruntime makes of the untouched model."""
    with _untouched(model, numbered) as original:
        return run(original, inputs, optimise=optimise, precise=True)


def check_runs(model: Model, numbered: Graph) -> None:
    """Raise where onnxruntime has no kernels for weights of an unusual type: before a search, as
    its plan could not be compared."""
    if any(constant.type.dtype not in PLANNED for constant in numbered.constants.values()):
        with _untouched(model, numbered) as original:
            session(original, optimise=False)


@contextmanager
def _untouched(model: Model, numbered: Graph) -> Generator[bytes | Path]:
    """The model as it was given, or, where its numbers are seeded, written to a file."""
    if model.original is not None and numbered is model.graph:
        yield model.original
        return
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        original = Path(folder) / "original.onnx"
        save_onnx(numbered, original)
        yield original
