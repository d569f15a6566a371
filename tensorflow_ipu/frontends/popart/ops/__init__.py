"""The ops of models by family, and their registry; `lowering.graphs` imports all families."""
