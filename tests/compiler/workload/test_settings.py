"""What a configuration says to the planner."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import scopes
from tensorflow_ipu.api.config import IPUConfig, SchedulingAlgorithm
from tensorflow_ipu.compiler import cache
from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.compiler.workload.settings import settings_of
from tensorflow_ipu.configs import chips, flags, translate
from tensorflow_ipu.device import selection
from tensorflow_ipu.ops.pipelining_ops import PipelineStageOptions
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.strategy import ipu_strategy
from tests.support.models import pipelines


def _compile() -> Executable:
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        strategy.run(tf.function(tf.exp), args=(tf.constant([1.0]),))
    return cache.executables()[-1]


def _configured(**options: Any) -> Settings:
    """Compiles a program with some options, and returns its settings."""
    config = IPUConfig()
    for name, value in options.items():
        group: Any = config
        *outer, last = name.split("__")
        for part in outer:
            group = getattr(group, part)
        setattr(group, last, value)
    config.configure_ipu_system()
    return _compile().settings


def test_the_defaults_of_the_configuration_are_those_of_the_planner() -> None:
    settings = _configured()
    assert dataclasses.replace(settings, merged_bytes={}) == Settings()
    assert len(settings.merged_bytes) == 6 and set(settings.merged_bytes.values()) == {0}


@pytest.mark.parametrize(
    "options, attribute, expected",
    [
        ({"auto_select_ipus": 4}, "replicas", 4),
        ({"io_tiles__num_io_tiles": 31}, "io_tiles", 32),
        (
            {"io_tiles__num_io_tiles": 8, "io_tiles__place_ops_on_io_tiles": True},
            "place_ops_on_io_tiles",
            True,
        ),
        ({"io_tiles__available_memory_proportion": 0.5}, "io_memory_proportion", 0.5),
        ({"allow_recompute": True}, "recompute", True),
        ({"scheduling__algorithm": SchedulingAlgorithm.SHORTEST_PATH}, "ordering", "SHORTEST_PATH"),
        (
            {"convolutions__poplar_options": {"availableMemoryProportion": "0.2"}},
            "convolution_proportion",
            0.2,
        ),
        (
            {"convolutions__poplar_options": {"partialsType": "half"}},
            "convolution_partials",
            "float16",
        ),
        (
            {"matmuls__poplar_options": {"availableMemoryProportion": "0.3"}},
            "matmul_proportion",
            0.3,
        ),
        ({"matmuls__poplar_options": {"partialsType": "float"}}, "matmul_partials", "float32"),
        (
            {"slices__poplar_options": {"availableMemoryProportion": "0.1"}},
            "slice_proportion",
            0.1,
        ),
        ({"optimizations__enable_graph_outlining": False}, "outlining", False),
        ({"optimizations__prefetch_data_streams": False}, "prefetch", False),
    ],
)
def test_options_become_attributes_of_settings(
    options: dict[str, Any], attribute: str, expected: Any
) -> None:
    assert getattr(_configured(**options), attribute) == expected


def test_merged_bytes_have_the_names_of_the_options() -> None:
    settings = _configured(optimizations__maximum_inter_ipu_copies_buffer_size=1000)
    assert settings.merged_bytes["maximum_inter_ipu_copies_buffer_size"] == 1000
    assert sum(settings.merged_bytes.values()) == 1000


def test_a_later_configuration_changes_nothing() -> None:
    config = IPUConfig()
    config.allow_recompute = True
    config.configure_ipu_system()
    executable = _compile()
    assert _configured(auto_select_ipus=2).recompute is False
    assert executable.settings.recompute is True
    assert executable.settings.replicas == 1


def test_the_model_has_its_own_tiles() -> None:
    config = IPUConfig()
    config.ipu_model.version = "ipu21"
    parsed = flags.parse("--use_ipu_model --ipu_model_tiles=16")
    system = selection.build(translate.to_options(config), parsed, 0)
    assert settings_of(system, 0, 1, None).chip == chips.BOW.with_tiles(16)


def test_options_of_pipeline_stages_reach_the_settings() -> None:
    half = {"availableMemoryProportion": "0.5"}
    pipelines.run(
        pipelines.stages(2),
        pipelines.data(8),
        gradient_accumulation_count=4,
        forward_propagation_stages_poplar_options=[
            PipelineStageOptions(),
            PipelineStageOptions(half, {"partialsType": "half"}),
        ],
        backward_propagation_stages_poplar_options=[
            PipelineStageOptions(matmul_options=half),
            PipelineStageOptions(half, half),
        ],
        weight_update_poplar_options=PipelineStageOptions(convolution_options=half),
    )
    settings = cache.executables()[-1].settings
    name = "availableMemoryProportion"
    assert settings.stage_options == {
        (1, "forward"): {f"convolutions.{name}": "0.5", "matmuls.partialsType": "half"},
        (0, "backward"): {f"matmuls.{name}": "0.5"},
        (1, "backward"): {f"convolutions.{name}": "0.5", f"matmuls.{name}": "0.5"},
        (0, "update"): {f"convolutions.{name}": "0.5"},
        (1, "update"): {f"convolutions.{name}": "0.5"},
    }


@pytest.mark.parametrize("offload", [None, False, True])
def test_stashes_of_a_pipeline_may_be_offloaded(offload: bool | None) -> None:
    pipelines.run(
        pipelines.stages(2),
        pipelines.data(8),
        gradient_accumulation_count=4,
        offload_activations=offload,
    )
    assert cache.executables()[-1].settings.offload_activations is bool(offload)


def test_partials_of_a_scope_reach_the_ops() -> None:
    def program(x: tf.Tensor) -> tf.Tensor:
        with scopes.partials_type(tf.float16):
            return tf.matmul(x, x)

    IPUConfig().configure_ipu_system()
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        strategy.run(tf.function(program), args=(tf.constant(np.ones((2, 2), np.float16)),))
    (product,) = [op for op in cache.executables()[-1].workload.ops if op.type == "MatMul"]
    assert product.attributes["partials"] == "float16"
