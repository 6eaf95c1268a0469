"""Running networks: onnxruntime as the reference and as the runtime of tiled models."""
