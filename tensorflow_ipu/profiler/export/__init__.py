"""Reports in the formats that people and tools read: text, HTML, SVG, traces, TensorBoard."""
