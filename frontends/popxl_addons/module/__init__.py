"""Layers with variables of their own: the module `popxl_addons.module`."""

from tensorflow_ipu.frontends.popxl_addons.module.module import Module

__all__ = ["Module"]
