"""Layers with variables of their own: the module `popxl_addons.module`."""

from tensorflow_ipu.frontends.popxl_addons.module.module import Module
from tensorflow_ipu.frontends.popxl_addons.module.own_gradients import create_grad_graph_info

__all__ = ["Module", "create_grad_graph_info"]
