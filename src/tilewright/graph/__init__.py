"""The network: Graph, Node, TensorType, and one OpSpec per operator."""
