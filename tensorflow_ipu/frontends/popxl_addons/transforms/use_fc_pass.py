"""Layouts of products for training; the module `popxl_addons.transforms.use_fc_pass`.

The original may lay out products as those of fully connected layers. No value depends on it.
"""

from __future__ import annotations

from tensorflow_ipu.frontends import popxl

__all__ = ["disable_fc_pass", "enable_fc_pass"]


def disable_fc_pass(ir: popxl.Ir) -> None:
    """Does nothing: products are not laid out for training as fully connected layers here.

    Args:
        ir: the program.
    """


def enable_fc_pass(ir: popxl.Ir) -> None:
    """Does nothing: products are not laid out for training as fully connected layers here.

    Args:
        ir: the program.
    """
