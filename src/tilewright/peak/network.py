"""Network: a graph while it turns into the kernels that onnxruntime runs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod

from tilewright.graph.graph import Attribute, Graph
from tilewright.graph.rules import optional
from tilewright.graph.types import TensorType
from tilewright.peak.kernels import RuntimeKernel
from tilewright.peak.runtime import Runtime

Shape = tuple[int, ...]


Rule = Callable[["RuntimeNetwork", RuntimeKernel], None]
Pass = Callable[["RuntimeNetwork"], None]


def each(*kinds: str) -> Callable[[Rule], Pass]:
    """A pass that tries a rule on all kernels of some kinds, in the order they would run now."""

    def passing(rule: Rule) -> Pass:
        tried = optional(rule)

        def run(network: "RuntimeNetwork") -> None:
            for kernel in network.in_order(*kinds):
                if not kernel.gone:
                    tried(network, kernel)

        return run

    return passing


class RuntimeNetwork:
    """Kernels, who makes and who reads each value, and the types of values that rewrites made up.

    Every change goes through a method, so that producers and readers stay true. `origin` leads
    from a made-up value to the one of the graph that it holds. `parameters` are constants that
    kernels read without naming them (scales of quantised ones), `made_constants` counts those that
    rewrites made.
    """

    def __init__(self, graph: Graph, runtime: Runtime, tile_of: Graph | None = None) -> None:
        self.graph = graph
        self.tile_of = tile_of
        self.runtime = runtime
        self.types: dict[str, TensorType] = dict(graph.types)
        self.constants: set[str] = set(graph.constants)
        self.outputs: set[str] = set(graph.outputs)
        self.origin: dict[str, str] = {}
        self.parameters: set[str] = set()
        self.made_constants = 0
        self.kernels = [
            RuntimeKernel(
                index,
                node.kind,
                "" if node.domain == "ai.onnx" else node.domain,
                node.inputs + node.captures,
                node.outputs,
                node.attributes,
            )
            for index, node in enumerate(graph.nodes)
        ]
        self.kinds: set[str] = {kernel.kind for kernel in self.kernels}
        self.next_index = len(self.kernels)
        self._order: list[RuntimeKernel] | None = None
        self._links: tuple[dict[str, RuntimeKernel], dict[str, list[RuntimeKernel]]] | None = None

    # What is there.

    @property
    def producer(self) -> dict[str, RuntimeKernel]:
        """Value -> the kernel that makes it."""
        return (self._links or self._linked())[0]

    @property
    def readers(self) -> dict[str, list[RuntimeKernel]]:
        """Value -> the kernels that read it, as often as they do; constants are left out."""
        return (self._links or self._linked())[1]

    def _linked(self) -> tuple[dict[str, RuntimeKernel], dict[str, list[RuntimeKernel]]]:
        kernels = [kernel for kernel in self.kernels if not kernel.gone]
        producer = {name: kernel for kernel in kernels for name in kernel.outputs}
        readers: dict[str, list[RuntimeKernel]] = {}
        for kernel in kernels:
            for name in kernel.inputs:
                if name not in self.constants:
                    readers.setdefault(name, []).append(kernel)
        producer.pop("", None)
        readers.pop("", None)
        self._links = producer, readers
        return self._links

    def has(self, *kinds: str) -> bool:
        """Whether any of these kinds was ever there: a pass without work costs nothing."""
        return not self.kinds.isdisjoint(kinds)

    def in_order(self, *kinds: str) -> list[RuntimeKernel]:
        """The kernels, all or those of some kinds, in the order they would run now."""
        if kinds and self.kinds.isdisjoint(kinds):
            return []
        if self._order is None:
            kernels = sorted((k for k in self.kernels if not k.gone), key=lambda k: k.index)
            position = {
                name: number for number, kernel in enumerate(kernels) for name in kernel.outputs
            }
            position.pop("", None)
            sources: list[list[int]] = []
            for kernel in kernels:
                above = [position[name] for name in kernel.inputs if name in position]
                sources.append(sorted(set(above)) if len(above) > 1 else above)
            self._order = [kernels[number] for number in backward_order(sources)]
            self.kernels = kernels
        if not kinds:
            return self._order
        return [kernel for kernel in self._order if kernel.kind in kinds]

    @property
    def values(self) -> int:
        """Values that a run has a place for: what kernels read and write, constants included."""
        kernels = [kernel for kernel in self.kernels if not kernel.gone]
        named = {name for kernel in kernels for name in (*kernel.inputs, *kernel.outputs)}
        named |= self.parameters
        named.discard("")
        return len(named) + self.made_constants

    def uses(self, name: str) -> int:
        """How often a value is read; being an output of the network counts."""
        return len(self.readers.get(name, ())) + (name in self.outputs)

    def sole_reader(self, name: str) -> RuntimeKernel | None:
        """The one kernel that reads a value, where nothing else needs it and it makes one value."""
        readers = self.readers.get(name, ())
        if len(readers) != 1 or name in self.outputs or not readers[0].single:
            return None
        return readers[0]

    def shape(self, name: str) -> Shape | None:
        """Shape of a value, None where it is unknown."""
        kind = self.types.get(name)
        return None if kind is None else kind.shape

    def size(self, name: str) -> int | None:
        """Elements of a value, None where they are unknown."""
        shape = self.shape(name)
        return None if shape is None else prod(shape)

    def spatial(self, *names: str) -> bool:
        """Whether all values are known and have channels and two axes of space."""
        return all(len(self.shape(name) or ()) == 4 for name in names)

    def scalar(self, name: str) -> float | None:
        """The number of a constant of one element, where it is known."""
        constant = self.graph.constants.get(name)
        return None if constant is None else constant.number

    def is_constant(self, name: str) -> bool:
        """Whether the value is absent or does not depend on the inputs."""
        return not name or name in self.constants

    def leaves(self, name: str) -> bool:
        """Whether a value is given to the caller: a tile's results are read by the next kernel."""
        return name in self.outputs and self.tile_of is None

    def shared(self, name: str) -> bool:
        """Whether several kernels read a constant, those of other tiles included."""
        if self.tile_of is not None and name in self.tile_of.constants:
            return True
        return sum(name in kernel.inputs for kernel in self.kernels if not kernel.gone) > 1

    # Changes.

    def relink(self) -> None:
        """Inputs and outputs of kernels were changed directly: find the links anew when needed."""
        self._order = self._links = None

    def add(
        self,
        kind: str,
        domain: str,
        inputs: Iterable[str],
        outputs: Iterable[str],
        attributes: Mapping[str, Attribute] | None = None,
    ) -> RuntimeKernel:
        """A new kernel, with the next free index."""
        kernel = RuntimeKernel(
            self.next_index, kind, domain, tuple(inputs), tuple(outputs), attributes or {}
        )
        self._order = None
        self.next_index += 1
        self.kinds.add(kind)
        self.kernels.append(kernel)
        for name in kernel.outputs:
            self.producer[name] = kernel
        for name in kernel.inputs:
            if name:
                self.readers.setdefault(name, []).append(kernel)
        return kernel

    def remove(self, *kernels: RuntimeKernel) -> None:
        """Kernels whose work is done elsewhere, or not needed."""
        self._order = None
        for kernel in kernels:
            if kernel.gone:
                continue
            kernel.gone = True
            for name in kernel.inputs:
                readers = self.readers.get(name)
                if readers is not None and kernel in readers:
                    readers.remove(kernel)
            for name in kernel.outputs:
                if self.producer.get(name) is kernel:
                    del self.producer[name]

    def become(self, kernel: RuntimeKernel, kind: str, domain: str) -> None:
        """The rewrite puts a new node in the kernel's place, which gets the next free index."""
        self._order = None
        kernel.kind, kernel.domain = kind, domain
        self.kinds.add(kind)
        kernel.index = self.next_index
        self.next_index += 1

    def absorb(self, head: RuntimeKernel, tail: RuntimeKernel) -> None:
        """`head` now computes what `tail` did too, and writes under its name."""
        self.remove(tail)
        del self.producer[head.outputs[0]]
        head.outputs = (tail.outputs[0], *head.outputs[1:])
        self.producer[head.outputs[0]] = head

    def bypass(self, kernel: RuntimeKernel, source: str) -> None:
        """Readers of the kernel's first output read the source; the kernel goes."""
        self.remove(kernel)
        self.redirect(kernel.outputs[0], source)

    def redirect(self, old: str, new: str) -> None:
        """All readers of one value read another."""
        for reader in dict.fromkeys(self.readers.get(old, ())):
            self.rewire(reader, old, new)

    def rewire(self, kernel: RuntimeKernel, old: str, new: str) -> None:
        """One kernel reads another value."""
        self._order = None
        times = kernel.inputs.count(old)
        kernel.inputs = tuple(new if name == old else name for name in kernel.inputs)
        self.readers[old] = [other for other in self.readers.get(old, []) if other is not kernel]
        self.readers.setdefault(new, []).extend([kernel] * times)

    def invent(self, name: str, label: str, shape: Shape) -> str:
        """A value that holds another one in a different layout."""
        token = f"{name}/{label}{len(self.origin)}"
        self.types[token] = self.types[name].with_shape(shape)
        self.origin[token] = self.origin.get(name, name)
        return token


def execution_order(graph: Graph) -> tuple[int, ...]:
    """Indices of the nodes in the order onnxruntime runs them."""
    return tuple(backward_order([sorted(graph.predecessors(i)) for i in range(len(graph.nodes))]))


def backward_order(sources: Sequence[Sequence[int]]) -> list[int]:
    """Depth first, backwards from the nodes without consumers.

    `sources` are each node's producers in ascending order. Among the producers of a node, and
    among the last nodes, the one with the highest number runs first.
    """
    consumed = [False] * len(sources)
    for above in sources:
        for number in above:
            consumed[number] = True
    # A number n stands for "visit n", its complement ~n for "everything n needs is done".
    stack = [number for number, used in enumerate(consumed) if not used]
    seen = [False] * len(sources)
    order: list[int] = []
    while stack:
        number = stack.pop()
        if number < 0:
            order.append(~number)
        elif not seen[number]:
            seen[number] = True
            stack.append(~number)
            stack.extend(above for above in sources[number] if not seen[above])
    return order
