"""Tracks of slices, which all trace formats show: the chip modelled, the host measured."""
