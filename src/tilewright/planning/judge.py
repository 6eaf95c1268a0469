"""Whether an execution gave the original's numbers, with the original at hand to be asked again."""

from collections.abc import Mapping
from dataclasses import replace

from tilewright.execute.compare import Comparison
from tilewright.execute.quantised import judged
from tilewright.execute.runtime import run
from tilewright.frontend.save import serialize
from tilewright.frontend.single import operator_model
from tilewright.graph.graph import Array, Graph, Node
from tilewright.graph.types import TensorType

Arrays = Mapping[str, Array]


def proven(
    original: Graph,
    planned: Graph,
    expected: Arrays,
    outputs: Arrays,
    inputs: Arrays,
    weights: Arrays,
    tolerance: float,
) -> Comparison:
    """Compare the outputs of a planned network with the original's. Quantised networks that differ
    are looked at operator by operator; onnxruntime then also gives the values between them."""

    def reference(names: tuple[str, ...]) -> Arrays:
        made = {name for node in original.nodes for name in node.writes}
        wanted = [name for name in names if name in made and name not in original.outputs]
        model = serialize(replace(original, outputs=(*original.outputs, *wanted)))
        return run(model, inputs, precise=True)

    def run_node(node: Node, read: Arrays) -> list[Array]:
        kinds = {name: TensorType(str(array.dtype), array.shape) for name, array in read.items()}
        model, names = operator_model(
            node.kind,
            node.domain,
            node.attributes,
            [kinds[name] if name else None for name in node.inputs],
            [planned.types[name] if name else None for name in node.outputs],
            {name: kinds[name] for name in node.captures},
            planned.opsets,
        )
        operands = [read[name] for name in node.reads]
        made = iter(run(model, dict(zip(names, operands, strict=True)), optimise=False).values())
        return [next(made) for name in node.outputs if name]

    return judged(
        planned,
        expected,
        outputs,
        tolerance,
        inputs=inputs,
        weights=weights,
        reference=reference,
        run_node=run_node,
    )
