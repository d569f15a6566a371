"""Cost rules of all other ops, one module for each family."""
