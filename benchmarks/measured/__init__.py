"""The model of the chip against measurements: rows, predictions, statistics, the page."""
