"""Tests of IPUConfig: defaults, types and the effect of every option."""

from __future__ import annotations

import pytest

from tensorflow_ipu.configs import translate
from tensorflow_ipu.configs.attributes import has_type, walk
from tensorflow_ipu.configs.enums import (
    DeviceConnectionType,
    Effect,
    ExecutionProfileType,
    MergeRemoteBuffersBehaviour,
    SchedulingAlgorithm,
    SelectionOrder,
    StochasticRoundingBehaviour,
)
from tensorflow_ipu.configs.ipu_config import OPTIONS, TREE, IPUConfig

INTS = "typing.Union[int, typing.List[int], typing.Tuple[int, ...]]"
PRIVATE = "_profiling."

# Name -> type and default, as documented for the public API.
DOCUMENTED = {
    "auto_select_ipus": (INTS, []),
    "select_ipus": (INTS, []),
    "allow_recompute": ("bool", False),
    "selection_order": ("SelectionOrder", SelectionOrder.AUTO),
    "serialization_output_folder": ("str", ""),
    "compilation_poplar_options": ("dict", {}),
    "gcl_poplar_options": ("dict", {}),
    "convolutions.poplar_options": ("dict", {}),
    "device_connection.type": ("DeviceConnectionType", DeviceConnectionType.ALWAYS),
    "device_connection.version": ("str", ""),
    "device_connection.enable_remote_buffers": ("bool", False),
    "experimental.always_rearrange_copies_on_the_host": ("bool", False),
    "experimental.enable_remote_buffer_embedding": ("bool", False),
    "experimental.enable_prng_stability": ("bool", False),
    "experimental.multi_replica_distribution.process_index": ("int", 0),
    "experimental.multi_replica_distribution.process_count": ("int", 0),
    "floating_point_behaviour.inv": ("bool", False),
    "floating_point_behaviour.div0": ("bool", False),
    "floating_point_behaviour.oflo": ("bool", False),
    "floating_point_behaviour.esr": ("typing.Union[bool, StochasticRoundingBehaviour]", False),
    "floating_point_behaviour.nanoo": ("bool", False),
    "floating_point_behaviour.set_all": ("bool", False),
    "io_tiles.num_io_tiles": ("int", 0),
    "io_tiles.place_ops_on_io_tiles": ("bool", False),
    "io_tiles.available_memory_proportion": ("float", 0.9),
    "ipu_model.compile_ipu_code": ("bool", True),
    "ipu_model.tiles_per_ipu": ("int", 0),
    "ipu_model.version": ("str", "ipu2"),
    "matmuls.clear_pass_type": ("bool", False),
    "matmuls.poplar_options": ("dict", {}),
    "norms.use_stable_statistics": ("bool", False),
    "norms.experimental.distributed_batch_norm_replica_group_size": ("int", 1),
    "optimizations.prefetch_data_streams": ("bool", True),
    "optimizations.combine_embedding_lookups": ("bool", False),
    "optimizations.combine_matmuls": ("bool", False),
    "optimizations.enable_graph_outlining": ("bool", True),
    "optimizations.merge_infeed_io_copies": ("bool", False),
    "optimizations.maximum_cross_replica_sum_buffer_size": ("int", 0),
    "optimizations.maximum_reduce_scatter_buffer_size": ("int", 0),
    "optimizations.maximum_inter_ipu_copies_buffer_size": ("int", 0),
    "optimizations.maximum_send_recv_cluster_size": ("int", 0),
    "optimizations.maximum_reduce_many_buffer_size": ("int", 0),
    "optimizations.maximum_all_gather_buffer_size": ("int", 0),
    "optimizations.minimum_remote_tensor_size": ("int", 128),
    "optimizations.merge_remote_buffers": (
        "MergeRemoteBuffersBehaviour",
        MergeRemoteBuffersBehaviour.IF_BENEFICIAL,
    ),
    "optimizations.enable_gather_simplifier": ("bool", True),
    "optimizations.triangular_solve_expander_block_size": ("int", 0),
    "optimizations.cholesky_block_size": ("int", 0),
    "optimizations.enable_fast_math": ("bool", False),
    "optimizations.enable_dynamic_slice_replacement": ("bool", True),
    "optimizations.math.fast": ("bool", False),
    "optimizations.math.dot_strength": ("bool", True),
    "pooling.poplar_options": ("dict", {}),
    "scheduling.algorithm": ("SchedulingAlgorithm", SchedulingAlgorithm.CHOOSE_BEST),
    "scheduling.maximum_scheduler_lookahead_depth": ("int", 5),
    "scheduling.maximum_scheduler_search_space_size": ("int", 64),
    "slices.poplar_options": ("dict", {}),
    "_profiling.profiling": ("bool", False),
    "_profiling.enable_ipu_events": ("bool", False),
    "_profiling.use_poplar_text_report": ("bool", False),
    "_profiling.use_poplar_cbor_report": ("bool", False),
    "_profiling.profile_execution": ("ExecutionProfileType", ExecutionProfileType.NO_PROFILE),
    "_profiling.enable_poplar_serialized_graph": ("bool", False),
    "_profiling.report_every_nth_execution": ("int", 0),
    "_profiling.max_report_size": ("int", 0x10000000),
    "_profiling.report_directory": ("str", ""),
    "_profiling.graph_poplar_options": ("dict", {}),
    "_profiling.execution_poplar_options": ("dict", {}),
    "_profiling.auto_assign_report_subdirectories": ("bool", False),
}


def owner(config, name):
    """The node that holds an option, and the option's own name."""
    *parents, leaf = name.split(".")
    for parent in parents:
        config = getattr(config, parent)
    return config, leaf


def test_the_table_is_the_whole_tree():
    assert set(OPTIONS) == set(DOCUMENTED)


@pytest.mark.parametrize(("name", "expected"), DOCUMENTED.items())
def test_options_have_the_documented_type_and_default(name, expected):
    config = IPUConfig()
    node, leaf = owner(config, name)
    metadata = config.get_attribute_metadata(name)
    assert (metadata.type, getattr(node, leaf)) == expected
    assert type(getattr(node, leaf)) is type(expected[1])
    assert metadata.default == expected[1]
    assert metadata.name == name


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_says_what_it_does_here(name):
    metadata = IPUConfig().get_attribute_metadata(name)
    assert isinstance(metadata.effect, Effect)
    assert metadata.__doc__ and metadata.__doc__[0].isupper() and metadata.__doc__.endswith(".")


@pytest.mark.parametrize("name", [name for name, _ in walk(TREE)])
def test_everything_is_documented(name):
    assert len(IPUConfig().get_attribute_metadata(name).__doc__) > 5


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_reaches_the_options_message(name):
    assert name in translate.FIELDS or name in ("auto_select_ipus", "select_ipus")


@pytest.mark.parametrize("name", OPTIONS)
def test_every_default_has_its_type(name):
    assert has_type(OPTIONS[name].default, OPTIONS[name].type)


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_rejects_object_of_no_documented_type(name):
    node, leaf = owner(IPUConfig(), name)
    with pytest.raises(TypeError, match="but it must be of type"):
        setattr(node, leaf, object())


@pytest.mark.parametrize(("value", "name"), [(True, "ON"), (False, "OFF"), (1, "ON"), (0, "OFF")])
def test_stochastic_rounding_is_made_from_a_flag(value, name):
    assert StochasticRoundingBehaviour.from_bool(value) is StochasticRoundingBehaviour[name]


@pytest.mark.parametrize("value", [None, "ON", 2])
def test_stochastic_rounding_from_no_flag(value):
    with pytest.raises(TypeError, match="takes True or False"):
        StochasticRoundingBehaviour.from_bool(value)


@pytest.mark.parametrize("value", [True, False, *StochasticRoundingBehaviour])
def test_stochastic_rounding_takes_bools_and_members(value):
    config = IPUConfig()
    config.floating_point_behaviour.esr = value
    assert config.floating_point_behaviour.esr is value


@pytest.mark.parametrize("value", [3, [1, 2], (4,)])
def test_ipus_are_selected_by_number_or_list(value):
    config = IPUConfig()
    config.auto_select_ipus = value
    assert config.auto_select_ipus == value


def test_fast_math_is_deprecated(caplog):
    config = IPUConfig()
    config.optimizations.enable_fast_math = True
    assert "optimizations.enable_fast_math has been deprecated" in caplog.text
    assert config.get_attribute_metadata("optimizations.enable_fast_math").deprecated


def test_the_constructor_takes_no_options():
    with pytest.raises(TypeError):
        IPUConfig(auto_select_ipus=1)


def test_a_configuration_makes_a_round_trip_through_json():
    config = IPUConfig()
    config.floating_point_behaviour.esr = StochasticRoundingBehaviour.REPLICA_IDENTICAL_ONLY
    config.convolutions.poplar_options = {"partialsType": "half"}
    other = IPUConfig()
    other.from_json(config.to_json())
    assert str(other) == str(config)
