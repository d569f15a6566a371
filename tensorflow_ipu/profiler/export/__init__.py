"""Report formats: text, HTML, SVG, traces and TensorBoard."""
