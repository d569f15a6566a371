"""The hand-written stencil of github.com/thorbenlouw/lbm-graphcore on Mk1."""
