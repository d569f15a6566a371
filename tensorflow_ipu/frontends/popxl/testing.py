"""Lists of types for tests of programs: the module `popxl.testing`."""

from __future__ import annotations

from tensorflow_ipu.frontends.popxl import dtypes

__all__ = ["get_all_dtypes", "get_all_int_dtypes"]


def get_all_dtypes() -> list[dtypes.dtype]:
    """Returns all types of elements."""
    return list(dict.fromkeys(v for v in vars(dtypes).values() if isinstance(v, dtypes.dtype)))


def get_all_int_dtypes(
    include_signed: bool = True, include_unsigned: bool = True
) -> list[dtypes.dtype]:
    """Returns the types of whole numbers.

    Args:
        include_signed: whether signed ones are among them.
        include_unsigned: whether unsigned ones are among them.
    """
    wanted = {True: include_signed, False: include_unsigned}
    return [dtype for dtype in get_all_dtypes() if dtype.is_int and wanted[dtype.is_signed]]
