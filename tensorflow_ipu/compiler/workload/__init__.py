"""Workloads of compiled programs and Settings of configurations, for the planner."""
