"""Stages of each kind of model: functional, Sequential, subclasses."""
