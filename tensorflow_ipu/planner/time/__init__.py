"""How long a Workload takes: the timeline, and the transfers on it."""
