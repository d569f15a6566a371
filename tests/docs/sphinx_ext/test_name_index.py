"""Tests which public name a text on a page means."""

from __future__ import annotations

import pytest
from sphinx_ext import name_index

IPU = "tensorflow.python.ipu"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("ipu.scopes", f"{IPU}.scopes"),
        ("ipu.scopes.ipu_shard()", f"{IPU}.scopes.ipu_shard"),
        ("tensorflow_ipu.api.scopes.ipu_shard", f"{IPU}.scopes.ipu_shard"),
        ("tf.keras.ipu.layers.Dropout", f"{IPU}.keras.layers.Dropout"),
        ("tf.keras.ipu.layers.LSTM", f"{IPU}.keras.layers.PopnnLSTM"),
        ("ipu.ops.nn_ops.gelu", f"{IPU}.nn_ops.gelu"),
        ("ipu.function", f"{IPU}.functional_ops.outlined_function"),
        ("IPUStrategy", f"{IPU}.ipu_strategy.IPUStrategyV1"),
        ("IPUStrategy.run", f"{IPU}.ipu_strategy.IPUStrategyV1.run"),
        ("ipu.ipu_strategy.IPUStrategy.run", f"{IPU}.ipu_strategy.IPUStrategyV1.run"),
        ("IPUConfig.optimizations.math.fast", f"{IPU}.config.IPUConfig.optimizations.math.fast"),
        ("config.auto_select_ipus", f"{IPU}.config.IPUConfig.auto_select_ipus"),
        ("ipu.horovod.popdist_strategy", f"{IPU}.distributed.popdist_strategy"),
        ("popxl.Variable.shape", "popxl.Tensor.shape"),
        ("popxl.tensor.Tensor", "popxl.Tensor"),
        ("popxl.addons.NamedTensors", "popxl_addons.NamedTensors"),
        ("tensorflow_ipu.frontends.popxl.ir.Graph", "popxl.Graph"),
        ("popart_core.DataFlow", "popart.DataFlow"),
        ("tf.Tensor", None),
        ("run", None),
        ("x + 1", None),
        ("ipu.scopes.missing", None),
    ],
)
def test_a_text_means_a_public_name_or_none(text, name):
    assert name_index.find(text) == name


@pytest.mark.parametrize(
    ("text", "name"),
    [("ctc_loss", "ctc_loss"), ("gelu()", "gelu"), ("gelu", None), ("name", None)],
)
def test_names_of_module_of_page_need_no_beginning(text, name):
    module = f"{IPU}.nn_ops"
    assert name_index.find(text, module) == (name and f"{module}.{name}")
