"""Whether an execution gave the original's numbers, with the original at hand to be asked again."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tilewright.execute.compare import Comparison
from tilewright.execute.quantised import judged
from tilewright.execute.runtime import run
from tilewright.frontend.save import serialize
from tilewright.frontend.single import operator_model
from tilewright.graph.graph import Array, Graph, Node
from tilewright.graph.types import TensorType
from tilewright.planning.result import Arrays, Numbers
from tilewright.program.materialise import whole_of
from tilewright.program.program import Whole


def run_whole(
    opsets: Mapping[str, int],
    work: Whole,
    operands: Sequence[Array],
    results: Sequence[TensorType],
) -> list[Array]:
    """An operator that runs in one piece, in onnxruntime: it alone, as it is written."""
    kinds = [TensorType(str(array.dtype), array.shape) for array in operands]
    model, names = operator_model(
        work.kind,
        work.domain,
        work.attributes,
        [None if i is None else kinds[i] for i in work.inputs],
        [None if o is None else results[o] for o in work.outputs],
        {name: kinds[i] for name, i in work.captures},
        opsets,
    )
    return list(run(model, dict(zip(names, operands, strict=True)), optimise=False).values())


def weights_of(graph: Graph) -> dict[str, Array]:
    """The numbers of a network's constants."""
    constants = graph.constants.items()
    return {name: constant.data for name, constant in constants if constant.data is not None}


def proven(
    original: Graph, planned: Graph, numbers: Numbers, outputs: Arrays, tolerance: float
) -> Comparison:
    """Compare the outputs of a planned network with the original's. Quantised networks that differ
    are looked at operator by operator; onnxruntime then also gives the values between them."""

    def reference(names: tuple[str, ...]) -> Arrays:
        made = {name for node in original.nodes for name in node.writes}
        wanted = [name for name in names if name in made and name not in original.outputs]
        model = serialize(replace(original, outputs=(*original.outputs, *wanted)))
        return run(model, numbers.inputs, precise=True)

    def run_node(node: Node, read: Arrays) -> list[Array]:
        operands = [read[name] for name in node.reads]
        return run_whole(
            planned.opsets, whole_of(node), operands, [planned.types[name] for name in node.writes]
        )

    return judged(
        planned,
        numbers.expected,
        outputs,
        tolerance,
        inputs=numbers.inputs,
        weights=weights_of(planned),
        reference=reference,
        run_node=run_node,
    )
