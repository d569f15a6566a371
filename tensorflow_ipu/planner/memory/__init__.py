"""How much memory a Workload needs, and when: tiles, liveness, stashes, code."""
