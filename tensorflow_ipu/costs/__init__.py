"""What work costs on the chip: pure functions of shapes, types and the chip's data."""
