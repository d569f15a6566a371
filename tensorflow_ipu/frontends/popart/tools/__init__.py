"""Tools for models of PopART: changes of types and constants, and comparison of trainings."""
