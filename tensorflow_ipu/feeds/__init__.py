"""Infeed and outfeed queues, and iterators over datasets in programs."""
