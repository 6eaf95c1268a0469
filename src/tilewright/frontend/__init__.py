"""Networks in and out: ONNX files, the zoo, normalisation."""
