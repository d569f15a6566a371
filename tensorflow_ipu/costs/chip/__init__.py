"""What parts of the chip cost in cycles: exchange, sync, links, streams, vertices, the AMP unit."""
