"""Time of a Workload: the timeline of a launch, and the transfers on it."""
