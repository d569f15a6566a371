"""What passes work on: Programs of functions and nodes, and what a node says."""
