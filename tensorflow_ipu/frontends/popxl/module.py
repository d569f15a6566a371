"""`Module`: the base of layers with a `build` method; the module `popxl.module`."""

from __future__ import annotations

from typing import Any

__all__ = ["Module"]


class Module:
    """A function with state: a class whose `build` makes ops.

    Call it to add its ops to the current graph, or pass it to `ir.create_graph`.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls `build`."""
        return self.build(*args, **kwargs)

    def build(self, *args: Any, **kwargs: Any) -> Any:
        """Makes the ops; classes override it.

        Raises:
            NotImplementedError: If it is not overridden.
        """
        raise NotImplementedError(f"{type(self).__name__} must override `build`.")
