"""The ops that the chip can run: their table, and the checks of programs against it."""
