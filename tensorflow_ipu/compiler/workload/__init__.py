"""Describes compiled programs as Workloads, and configurations as Settings, for the planner."""
