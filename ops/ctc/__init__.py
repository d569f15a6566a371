"""Connectionist temporal classification: the losses and the beam search."""
