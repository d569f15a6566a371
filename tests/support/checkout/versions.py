"""Which TensorFlow a test needs."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from tensorflow_ipu.import_hook.versions import releases

_FOUND = importlib.util.find_spec("tensorflow")
#: The version of the installed TensorFlow, which tests of pages do not load.
TENSORFLOW = releases.installed_version(Path(str(_FOUND and _FOUND.origin)).parent)


def has_tensorflow(specifier: str) -> bool:
    """Returns whether the installed TensorFlow is one of a specifier, such as `<2.16`."""
    return TENSORFLOW in SpecifierSet(specifier, prereleases=True)


def needs_tensorflow(specifier: str, reason: str) -> pytest.MarkDecorator:
    """Returns the mark that skips a test where another TensorFlow is installed.

    Args:
        specifier: the releases that it needs, such as `<2.16`.
        reason: what the others do not have, or do otherwise.
    """
    why = f"needs TensorFlow {specifier}, this is {TENSORFLOW}: {reason}"
    return pytest.mark.skipif(not has_tensorflow(specifier), reason=why)
