"""Which TensorFlow a test needs."""

from __future__ import annotations

import pytest
import tensorflow as tf
from packaging.specifiers import SpecifierSet


def has_tensorflow(specifier: str) -> bool:
    """Returns whether the installed TensorFlow is one of a specifier, such as `<2.16`."""
    return tf.__version__ in SpecifierSet(specifier, prereleases=True)


def needs_tensorflow(specifier: str, reason: str) -> pytest.MarkDecorator:
    """Returns the mark that skips a test where another TensorFlow is installed.

    Args:
        specifier: the releases that it needs, such as `<2.16`.
        reason: what the others do not have, or do otherwise.
    """
    why = f"needs TensorFlow {specifier}, this is {tf.__version__}: {reason}"
    return pytest.mark.skipif(not has_tensorflow(specifier), reason=why)
