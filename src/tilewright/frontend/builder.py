"""A builder of networks: types are worked out as it goes, weights have no numbers yet."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend.infer import Inference
from tilewright.graph.graph import Array, Attribute, Constant, Graph, Node, constant_of
from tilewright.graph.types import TensorType
from tilewright.graph.verify import verify

OPSET = 20


class TypedNodes:
    """Nodes added one after the other, each typed as it comes."""

    def __init__(self, opset: int) -> None:
        self.inference = Inference({"": opset}, {})
        self.inputs: list[str] = []
        self.nodes: list[Node] = []

    def type(self, value: str) -> TensorType:
        return self.inference.types[value]

    def shape(self, value: str) -> tuple[int, ...]:
        return self.type(value).shape

    def declare(self, name: str, kind: TensorType) -> str:
        self.inputs.append(name)
        self.inference.types[name] = kind
        return name

    def append(self, node: Node) -> None:
        """One more node, unless it is constant."""
        if self.inference.add(node):
            self.nodes.append(node)

    def built(self, name: str, outputs: tuple[str, ...]) -> Graph:
        """The network, without constants that nothing reads."""
        types, constants = self.inference.types, self.inference.constants
        read = {value for node in self.nodes for value in node.reads} | set(outputs)
        graph = Graph(
            name,
            tuple(self.nodes),
            tuple(self.inputs),
            outputs,
            {v: kind for v, kind in types.items() if v not in constants or v in read},
            {v: constant for v, constant in constants.items() if v in read},
            dict(self.inference.opsets),
        )
        verify(graph)
        return graph


class Builder(TypedNodes):
    """Builds a Graph node by node. Every method takes and gives names of values.

    A node without a name is called after its kind and its place in the scope: `layer1.0.relu2`.
    A node's value has the node's name; its weights stand under it: `layer1.0.conv1.weight`.
    """

    def __init__(self, name: str) -> None:
        super().__init__(OPSET)
        self.name = name
        self._scope = ""
        self._counts: dict[str, int] = {}

    def input(self, name: str, shape: Sequence[int], dtype: str = "float32") -> str:
        return self.declare(name, TensorType(dtype, tuple(shape)))

    def weight(self, name: str, shape: Sequence[int], dtype: str = "float32") -> str:
        """A constant without numbers: they are seeded when they are needed."""
        full = self._scope + name
        self.inference.constant(full, Constant(TensorType(dtype, tuple(shape)), None))
        return full

    def constant(self, name: str, array: Array) -> str:
        full = self._scope + name
        self.inference.constant(full, constant_of(array))
        return full

    @contextmanager
    def scope(self, name: str) -> Generator[None, None, None]:
        """Names made inside stand under this one."""
        outer, self._scope = self._scope, f"{self._scope}{name}."
        yield
        self._scope = outer

    def op(self, kind: str, *inputs: str, name: str = "", **attributes: Attribute) -> str:
        """A node with one result."""
        return self.split_op(kind, *inputs, results=1, name=name, **attributes)[0]

    def split_op(
        self, kind: str, *inputs: str, results: int, name: str = "", **attributes: Attribute
    ) -> tuple[str, ...]:
        """A node with several results, called name.0, name.1 and so on."""
        full = self._named(kind, name)
        outputs = (full,) if results == 1 else tuple(f"{full}.{i}" for i in range(results))
        node = Node(full, kind, inputs, outputs, attributes)
        self.append(node)
        unknown = [value for value in outputs if value not in self.inference.types]
        if unknown:
            raise ModelError(
                f"node '{full}' ({kind}): the shape of its result cannot be worked out"
            )
        return outputs

    def _named(self, kind: str, name: str) -> str:
        if name:
            return self._scope + name
        base = self._scope + kind.lower()
        self._counts[base] = self._counts.get(base, 0) + 1
        return f"{base}{self._counts[base]}"

    def finish(self, *outputs: str) -> Graph:
        return self.built(self.name, outputs)

    # What networks are made of.

    def conv(
        self,
        x: str,
        filters: int,
        kernel: int,
        *,
        stride: int = 1,
        pads: int | tuple[int, int, int, int] = 0,
        groups: int = 1,
        bias: bool = False,
        name: str = "",
    ) -> str:
        """A square 2-D convolution; pads are top, left, bottom, right, or one number for all."""
        local = self._local("Conv", name)
        shape = (filters, self.shape(x)[1] // groups, kernel, kernel)
        weights = [self.weight(f"{local}.weight", shape)]
        if bias:
            weights.append(self.weight(f"{local}.bias", (filters,)))
        window = _square(kernel, stride, pads)
        return self.op("Conv", x, *weights, name=local, **window, group=groups)

    def conv_transpose(
        self,
        x: str,
        filters: int,
        kernel: int,
        *,
        stride: int,
        pads: int = 0,
        output_padding: int = 0,
        name: str = "",
    ) -> str:
        """A square 2-D transposed convolution with a bias."""
        local = self._local("ConvTranspose", name)
        weight = self.weight(f"{local}.weight", (self.shape(x)[1], filters, kernel, kernel))
        bias, extra = self.weight(f"{local}.bias", (filters,)), (output_padding, output_padding)
        window = _square(kernel, stride, pads)
        return self.op("ConvTranspose", x, weight, bias, name=local, **window, output_padding=extra)

    def pool(
        self, kind: str, x: str, kernel: int, stride: int, pads: int = 0, name: str = ""
    ) -> str:
        """A square MaxPool or AveragePool."""
        return self.op(kind, x, name=name, **_square(kernel, stride, pads))

    def batch_norm(self, x: str, name: str = "") -> str:
        """A BatchNormalization with running statistics."""
        local = self._local("bn", name)
        names = ("weight", "bias", "running_mean", "running_var")
        channels = (self.shape(x)[1],)
        weights = [self.weight(f"{local}.{part}", channels) for part in names]
        return self.op("BatchNormalization", x, *weights, name=local, epsilon=1e-5)

    def layer_norm(self, x: str, epsilon: float, name: str = "") -> str:
        """A LayerNormalization over the last axis."""
        local = self._local("norm", name)
        weights = [
            self.weight(f"{local}.{part}", self.shape(x)[-1:]) for part in ("weight", "bias")
        ]
        return self.op("LayerNormalization", x, *weights, name=local, axis=-1, epsilon=epsilon)

    def group_norm(self, x: str, groups: int, epsilon: float, name: str = "") -> str:
        """A group norm as exporters write it: Reshape, InstanceNormalization, Reshape, Mul, Add."""
        local = self._local("groupnorm", name)
        shape = self.shape(x)
        with self.scope(local):
            one = self.constant("one", np.ones(groups, np.float32))
            zero = self.constant("zero", np.zeros(groups, np.float32))
            grouped = self.reshape(x, (0, groups, -1))
            normed = self.op("InstanceNormalization", grouped, one, zero, epsilon=epsilon)
            back = self.reshape(normed, shape)
            scaled = self.op("Mul", back, self.weight("weight", (shape[1], 1, 1)))
            return self.op("Add", scaled, self.weight("bias", (shape[1], 1, 1)))

    def linear(self, x: str, features: int, *, bias: bool = True, name: str = "") -> str:
        """A linear layer on the last axis: Gemm on a matrix, else MatMul and Add."""
        local = self._local("linear", name)
        shape = self.shape(x)
        if len(shape) == 2:
            weight = self.weight(f"{local}.weight", (features, shape[-1]))
            extra = [self.weight(f"{local}.bias", (features,))] if bias else []
            return self.op("Gemm", x, weight, *extra, name=local, transB=1)
        weight = self.weight(f"{local}.weight", (shape[-1], features))
        product = self.op("MatMul", x, weight, name=local)
        if not bias:
            return product
        return self.op(
            "Add", product, self.weight(f"{local}.bias", (features,)), name=f"{local}.add"
        )

    def reshape(self, x: str, shape: Sequence[int], name: str = "") -> str:
        """The same elements in another shape (0 keeps an extent, -1 takes the rest)."""
        local = self._local("Reshape", name)
        extents = self.constant(f"{local}.shape", np.asarray(shape, np.int64))
        return self.op("Reshape", x, extents, name=local)

    def relu6(self, x: str, name: str = "") -> str:
        """A Clip between 0 and 6."""
        local = self._local("relu6", name)
        low = self.constant(f"{local}.min", np.asarray(0.0, np.float32))
        high = self.constant(f"{local}.max", np.asarray(6.0, np.float32))
        return self.op("Clip", x, low, high, name=local)

    def prelu(self, x: str, name: str = "") -> str:
        """A PRelu with a slope per channel."""
        local = self._local("prelu", name)
        slope = self.weight(f"{local}.slope", (1, self.shape(x)[1], 1, 1))
        return self.op("PRelu", x, slope, name=local)

    def silu(self, x: str) -> str:
        """x * sigmoid(x), as exporters write it."""
        return self.op("Mul", x, self.op("Sigmoid", x))

    def heads(self, x: str, heads: int) -> str:
        """Batch, length, features -> batch, heads, length, features per head."""
        batch, length, features = self.shape(x)
        split = self.reshape(x, (batch, length, heads, features // heads))
        return self.op("Transpose", split, perm=(0, 2, 1, 3))

    def attention(self, query: str, key: str, value: str, mask: str = "") -> str:
        """Scaled dot-product attention of batch, heads, length, features; gives the heads joined.

        The mask, if any, is added to the scores.
        """
        batch, heads, length, features = self.shape(query)
        scale = self.constant("scale", np.asarray(features**-0.5, np.float32))
        turned = self.op("Transpose", key, perm=(0, 1, 3, 2))
        scores = self.op("Mul", self.op("MatMul", query, turned, name="scores"), scale)
        if mask:
            scores = self.op("Add", scores, mask, name="masked")
        weights = self.op("Softmax", scores, axis=-1)
        mixed = self.op("MatMul", weights, value, name="mix")
        joined = self.op("Transpose", mixed, perm=(0, 2, 1, 3))
        return self.reshape(joined, (batch, length, heads * features))

    def _local(self, kind: str, name: str) -> str:
        """The name inside the scope: the one given, or the next of its kind."""
        return name or self._named(kind, "").removeprefix(self._scope)


def _square(
    kernel: int, stride: int, pads: int | tuple[int, int, int, int]
) -> dict[str, Attribute]:
    """The attributes of a square 2-D window."""
    return {
        "kernel_shape": (kernel, kernel),
        "strides": (stride, stride),
        "pads": (pads,) * 4 if isinstance(pads, int) else pads,
    }
