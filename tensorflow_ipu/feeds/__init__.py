"""Infeed and outfeed queues: what they share, and iterators over datasets in programs."""
