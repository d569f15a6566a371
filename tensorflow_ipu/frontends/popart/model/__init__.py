"""ONNX files: loading, checks, data kept beside them."""
