"""Builds ONNX models: graphs, nodes, names, annotations and the methods of opsets."""
