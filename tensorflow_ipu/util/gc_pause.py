"""Pause of Python's cycle collector during work that makes many objects."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """Context: pauses Python's cycle collector, a third of the time of a large listing.

    Listings, descriptions, plans and reports make many objects that live until their end, so there
    is nothing to collect.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
