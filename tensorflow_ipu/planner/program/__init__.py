"""What the ops of a Workload are for, where they are, and what they depend on."""
