"""Connectionist temporal classification (CTC): losses and beam search."""
