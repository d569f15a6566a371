"""What the other ops cost, one module for each family."""
