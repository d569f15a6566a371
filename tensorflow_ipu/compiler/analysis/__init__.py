"""Facts computed from a Program: FLOPs, trip counts, layers, batch dimensions, pipelines."""
