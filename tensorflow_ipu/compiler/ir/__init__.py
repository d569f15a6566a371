"""The compiler's intermediate representation: Programs, functions, nodes and targets."""
