"""Memory of a Workload: tiles, liveness, stashes and code."""
