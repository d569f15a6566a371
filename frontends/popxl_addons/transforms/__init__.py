"""Functions that make graphs of graphs: the module `popxl_addons.transforms`."""

from tensorflow_ipu.frontends.popxl_addons.transforms.autodiff import (
    autodiff,
    autodiff_with_accumulation,
)

__all__ = ["autodiff", "autodiff_with_accumulation"]
