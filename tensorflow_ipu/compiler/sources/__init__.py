"""Origins of a program's ops in the user's code."""
