"""Tests that every public name has a docstring with its arguments."""

from __future__ import annotations

import types

import pytest
from sphinx_ext import completeness, public_names


def test_every_public_name_has_docstring_with_its_arguments():
    assert dict(completeness.lacking()) == {}


def test_everything_that_can_be_called_is_looked_at():
    names = {name for name, _, _ in completeness.descriptions()}
    assert len(names) > 2500
    assert names >= {
        "tensorflow.python.ipu.nn_ops.ctc_loss_v2",
        "tensorflow.python.ipu.config.IPUConfig.configure_ipu_system",
        "popxl.Tensor.shape",
        "popart.AiOnnxOpset11.conv",
        "pva.Report",
    }


def whole(x):
    """Returns its argument.

    Args:
        x: anything.
    """
    return x


def bare(x):
    return x


def without_arguments(x):
    """Returns its argument."""


def like_another(x):
    """Returns the same as `whole`."""


def unfinished(x):
    """Returns its argument"""


@pytest.mark.parametrize(
    ("value", "lacking"),
    [
        (bare, {"module.bare": "a docstring"}),
        (without_arguments, {"module.without_arguments": "Args: x"}),
        (unfinished, {"module.unfinished": "a first sentence"}),
        (like_another, {}),
        (whole, {}),
    ],
)
def test_what_a_docstring_lacks_is_found(monkeypatch, value, lacking):
    code = types.ModuleType("module")
    names = {"whole": whole, value.__name__: value}
    vars(code).update(names)
    module = public_names.Module("module", code, (), sorted(names))
    monkeypatch.setattr(public_names, "modules", lambda: {"module": module})
    assert dict(completeness.lacking()) == lacking
