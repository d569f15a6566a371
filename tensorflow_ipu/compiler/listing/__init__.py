"""Lists the ops of a compiled program with IPU, bytes, work, copies and source line."""
