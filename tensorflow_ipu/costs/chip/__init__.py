"""Cycles of the chip's parts: exchange, sync, links, streams, vertices and the AMP unit."""
