"""The TensorFlow 1 option functions: signatures' meaning, errors, accumulation, warnings."""

from __future__ import annotations

import inspect

import pytest

from tensorflow_ipu.configs import legacy, translate
from tensorflow_ipu.configs.enums import (
    DeviceConnectionType,
    ExecutionProfileType,
    MergeRemoteBuffersBehaviour,
    SchedulingAlgorithm,
    SelectionOrder,
)
from tensorflow_ipu.configs.ipu_config import IPUConfig
from tensorflow_ipu.configs.legacy import KeyId, VerificationOptions
from tensorflow_ipu.configs.proto.ipu_options_pb2 import IpuOptions
from tensorflow_ipu.util import notices

# --- Keys of verified transfers ---


def test_keys_can_be_set_in_place_or_replaced():
    options = VerificationOptions()
    options.inputs.key = 1
    options.infeeds["infeed"].key = 3
    options.input_parameters = KeyId(1, 5)
    assert options.inputs == KeyId(1)
    assert options.infeeds == {"infeed": KeyId(3)}
    assert options.input_parameters.start_id == 5


def test_instances_share_nothing():
    VerificationOptions().inputs.key = 1
    VerificationOptions().infeeds["a"].key = 2
    assert VerificationOptions() == VerificationOptions()
    assert VerificationOptions().inputs.key == 0


@pytest.mark.parametrize("arguments", [("1",), (True,), (1, 2.0)])
def test_keys_must_be_integers(arguments):
    with pytest.raises(TypeError, match="but it must be of type int"):
        KeyId(*arguments)


# --- Option functions ---

FUNCTIONS = [
    value
    for name, value in vars(legacy).items()
    if inspect.isfunction(value) and value.__module__ == legacy.__name__ and name[0] != "_"
]


def changes(options):
    """The options that differ from the defaults, by name."""
    defaults = dict(IPUConfig().items())
    found = dict(translate.from_options(options).items())
    return {name: value for name, value in found.items() if value != defaults[name]}


@pytest.fixture
def opts():
    return legacy.create_ipu_config()


def test_the_functions_are_all_here():
    assert {function.__name__ for function in FUNCTIONS} == {
        "auto_select_ipus",
        "create_ipu_config",
        "select_ipus",
        "set_compilation_options",
        "set_convolution_options",
        "set_experimental_multi_replica_distribution_options",
        "set_floating_point_behaviour_options",
        "set_gcl_options",
        "set_io_tile_options",
        "set_ipu_connection_type",
        "set_ipu_model_options",
        "set_matmul_options",
        "set_norm_options",
        "set_optimization_options",
        "set_pooling_options",
        "set_recomputation_options",
        "set_report_options",
        "set_serialization_options",
        "set_transfer_options",
        "set_verification_options",
    }


def test_an_empty_config_has_the_defaults(opts):
    assert opts == translate.to_options(IPUConfig())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"profiling": True}, {"_profiling.profiling": True}),
        ({"enable_ipu_events": True}, {"_profiling.enable_ipu_events": True}),
        (
            {"profiling": True, "profile_execution": True},
            {
                "_profiling.profiling": True,
                "_profiling.profile_execution": ExecutionProfileType.DEVICE_PROFILE,
            },
        ),
        (
            {"profiling": True, "profile_execution": ExecutionProfileType.TILE_PROFILE},
            {
                "_profiling.profiling": True,
                "_profiling.profile_execution": ExecutionProfileType.TILE_PROFILE,
            },
        ),
        ({"profile_execution": False}, {}),
        ({"use_poplar_text_report": True}, {"_profiling.use_poplar_text_report": True}),
        ({"use_poplar_cbor_report": True}, {"_profiling.use_poplar_cbor_report": True}),
        (
            {"enable_poplar_serialized_graph": True},
            {"_profiling.enable_poplar_serialized_graph": True},
        ),
        ({"report_every_nth_execution": 3}, {"_profiling.report_every_nth_execution": 3}),
        ({"max_report_size": 3}, {"_profiling.max_report_size": 3}),
        ({"report_directory": "d"}, {"_profiling.report_directory": "d"}),
        (
            {"scheduler_selection": SchedulingAlgorithm.POST_ORDER},
            {"scheduling.algorithm": SchedulingAlgorithm.POST_ORDER},
        ),
        ({"scheduler_selection": ""}, {}),
        (
            {"scheduler_selection": "Clustering"},
            {"scheduling.algorithm": SchedulingAlgorithm.CLUSTERING},
        ),
        (
            {"scheduler_selection": "PostOrder"},
            {"scheduling.algorithm": SchedulingAlgorithm.POST_ORDER},
        ),
        (
            {"scheduler_selection": "LookAhead"},
            {"scheduling.algorithm": SchedulingAlgorithm.LOOK_AHEAD},
        ),
        (
            {"scheduler_selection": "ShortestPath"},
            {"scheduling.algorithm": SchedulingAlgorithm.SHORTEST_PATH},
        ),
        (
            {"always_rearrange_copies_on_the_host": True},
            {"experimental.always_rearrange_copies_on_the_host": True},
        ),
        ({"merge_infeed_io_copies": True}, {"optimizations.merge_infeed_io_copies": True}),
        ({"disable_graph_outlining": True}, {"optimizations.enable_graph_outlining": False}),
        ({"retain_control_dependencies": True}, {}),
        (
            {"max_cross_replica_sum_buffer_size": 4},
            {"optimizations.maximum_cross_replica_sum_buffer_size": 4},
        ),
        (
            {"max_inter_ipu_copies_buffer_size": 4},
            {"optimizations.maximum_inter_ipu_copies_buffer_size": 4},
        ),
        ({"max_scheduler_lookahead_depth": 4}, {"scheduling.maximum_scheduler_lookahead_depth": 4}),
        (
            {"max_scheduler_search_space_size": 4},
            {"scheduling.maximum_scheduler_search_space_size": 4},
        ),
        ({"prefetch_data_streams": False}, {"optimizations.prefetch_data_streams": False}),
        ({"selection_order": SelectionOrder.HOOF}, {"selection_order": SelectionOrder.HOOF}),
        (
            {"enable_experimental_remote_buffer_embedding": True},
            {"experimental.enable_remote_buffer_embedding": True},
        ),
    ],
)
def test_create_ipu_config_sets_the_documented_fields(arguments, expected):
    assert changes(legacy.create_ipu_config(**arguments)) == expected


def test_control_dependencies_are_recorded():
    opts = legacy.create_ipu_config(retain_control_dependencies=True)
    assert opts.speed_size_config.retain_control_dependencies


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"profiling": True, "enable_ipu_events": True}, Exception, "cannot be used together"),
        ({"profile_execution": True}, Exception, "needs `profiling`"),
        ({"profiling": True, "profile_execution": 1}, Exception, "`profile_execution` must be"),
        ({"scheduler_selection": "Best"}, TypeError, "received 'Best'"),
        ({"scheduler_selection": 1}, TypeError, "received 1"),
        ({"selection_order": "SNAKE"}, TypeError, "must be of type SelectionOrder"),
    ],
)
def test_wrong_arguments_of_create_ipu_config_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        legacy.create_ipu_config(**arguments)


@pytest.mark.parametrize(
    ("function", "arguments", "expected"),
    [
        ("auto_select_ipus", (2,), {"auto_select_ipus": [2]}),
        ("auto_select_ipus", ([1, 2],), {"auto_select_ipus": [1, 2]}),
        ("auto_select_ipus", ((4,),), {"auto_select_ipus": [4]}),
        ("select_ipus", ([24, 25],), {"select_ipus": [24, 25]}),
        ("set_serialization_options", ("d",), {"serialization_output_folder": "d"}),
        ("set_recomputation_options", (), {"allow_recompute": True}),
        ("set_recomputation_options", (False,), {}),
        (
            "set_floating_point_behaviour_options",
            (),
            {
                f"floating_point_behaviour.{name}": True
                for name in ("inv", "div0", "oflo", "esr", "nanoo")
            },
        ),
        (
            "set_floating_point_behaviour_options",
            (False, False, False, False, True),
            {"floating_point_behaviour.nanoo": True},
        ),
        (
            "set_io_tile_options",
            (64, True, 0.5),
            {
                "io_tiles.num_io_tiles": 64,
                "io_tiles.place_ops_on_io_tiles": True,
                "io_tiles.available_memory_proportion": 0.5,
            },
        ),
        ("set_io_tile_options", (64,), {"io_tiles.num_io_tiles": 64}),
        (
            "set_ipu_model_options",
            (False, 4, "ipu1"),
            {
                "ipu_model.compile_ipu_code": False,
                "ipu_model.tiles_per_ipu": 4,
                "ipu_model.version": "ipu1",
            },
        ),
        (
            "set_ipu_connection_type",
            (DeviceConnectionType.NEVER, "ipu1", True),
            {
                "device_connection.type": DeviceConnectionType.NEVER,
                "device_connection.version": "ipu1",
                "device_connection.enable_remote_buffers": True,
            },
        ),
        (
            "set_ipu_connection_type",
            (DeviceConnectionType.PRE_COMPILE, 2),
            {
                "device_connection.type": DeviceConnectionType.PRE_COMPILE,
                "device_connection.version": "ipu2",
            },
        ),
        (
            "set_experimental_multi_replica_distribution_options",
            (4, 3),
            {
                "experimental.multi_replica_distribution.process_count": 4,
                "experimental.multi_replica_distribution.process_index": 3,
            },
        ),
        (
            "set_norm_options",
            (True, 2),
            {
                "norms.use_stable_statistics": True,
                "norms.experimental.distributed_batch_norm_replica_group_size": 2,
            },
        ),
        (
            "set_matmul_options",
            ({"a": "b"}, True),
            {"matmuls.poplar_options": {"a": "b"}, "matmuls.clear_pass_type": True},
        ),
        (
            "set_report_options",
            ({"a": "b"}, {"c": "d"}),
            {
                "_profiling.graph_poplar_options": {"a": "b"},
                "_profiling.execution_poplar_options": {"c": "d"},
            },
        ),
        (
            "set_optimization_options",
            (),
            {"optimizations.merge_remote_buffers": MergeRemoteBuffersBehaviour.NO_MERGING},
        ),
        (
            "set_optimization_options",
            (True, True, 1, 2, 3, 4, 5, None, False, 6, 7, True),
            {
                "optimizations.combine_embedding_lookups": True,
                "optimizations.combine_matmuls": True,
                "optimizations.maximum_cross_replica_sum_buffer_size": 1,
                "optimizations.maximum_reduce_scatter_buffer_size": 2,
                "optimizations.maximum_inter_ipu_copies_buffer_size": 3,
                "optimizations.maximum_send_recv_cluster_size": 4,
                "optimizations.minimum_remote_tensor_size": 5,
                "optimizations.enable_gather_simplifier": False,
                "optimizations.triangular_solve_expander_block_size": 6,
                "optimizations.cholesky_block_size": 7,
                "optimizations.enable_fast_math": True,
            },
        ),
    ],
)
def test_setters_change_only_their_fields(opts, function, arguments, expected):
    assert getattr(legacy, function)(opts, *arguments) is opts
    assert changes(opts) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, MergeRemoteBuffersBehaviour.MERGE),
        (False, MergeRemoteBuffersBehaviour.NO_MERGING),
        (None, MergeRemoteBuffersBehaviour.IF_BENEFICIAL),
        (MergeRemoteBuffersBehaviour.MERGE, MergeRemoteBuffersBehaviour.MERGE),
    ],
)
def test_merge_remote_buffers_is_translated_to_the_option(opts, value, expected):
    legacy.set_optimization_options(opts, merge_remote_buffers=value)
    assert translate.get_option(opts, "optimizations.merge_remote_buffers") is expected


DICTIONARIES = [
    ("set_compilation_options", "compilation_poplar_options", Exception),
    ("set_convolution_options", "convolutions.poplar_options", Exception),
    ("set_matmul_options", "matmuls.poplar_options", Exception),
    ("set_pooling_options", "pooling.poplar_options", Exception),
    ("set_gcl_options", "gcl_poplar_options", TypeError),
    ("set_report_options", "_profiling.graph_poplar_options", Exception),
]


@pytest.mark.parametrize(("function", "name", "error"), DICTIONARIES)
def test_dictionaries_of_options_accumulate(opts, function, name, error):
    setter = getattr(legacy, function)
    setter(opts, {"a": "1", "b": "2"})
    setter(opts, {"b": "3"})
    setter(opts)
    assert changes(opts) == {name: {"a": "1", "b": "3"}}
    with pytest.raises(error, match="must be a dictionary"):
        setter(opts, [("a", "1")])


@pytest.mark.parametrize(
    ("function", "arguments", "error", "message"),
    [
        ("auto_select_ipus", ("1",), Exception, "`num_ipus` must be an int, list or tuple"),
        ("select_ipus", (1,), Exception, "`indices` must be a list or tuple."),
        ("select_ipus", ([1, 1],), ValueError, "must be unique"),
        ("set_norm_options", (False, 0), ValueError, "must be at least 1: .*; received 0"),
        (
            "set_experimental_multi_replica_distribution_options",
            (2, 2),
            ValueError,
            "0 <= process_index < process_count",
        ),
        ("set_ipu_connection_type", ("ALWAYS",), TypeError, "must be a DeviceConnectionType"),
        (
            "set_optimization_options",
            (False, False, 0, 0, 0, 0, 0, 1),
            TypeError,
            "a bool or None; received 1",
        ),
        ("set_verification_options", ({},), TypeError, "must be a VerificationOptions"),
        ("set_serialization_options", (3,), TypeError, "serialization_output_folder"),
    ],
)
def test_wrong_arguments_are_refused_and_change_nothing(opts, function, arguments, error, message):
    with pytest.raises(error, match=message):
        getattr(legacy, function)(opts, *arguments)
    assert changes(opts) == {}


@pytest.mark.parametrize("second", ["auto_select_ipus", "select_ipus"])
@pytest.mark.parametrize("first", ["auto_select_ipus", "select_ipus"])
def test_selecting_ipus_twice_is_refused(opts, first, second):
    getattr(legacy, first)(opts, [1])
    with pytest.raises(Exception, match=r"IPU devices have already been configured\."):
        getattr(legacy, second)(opts, [2])


ARGUMENTS = {
    "auto_select_ipus": (1,),
    "select_ipus": ([1],),
    "set_io_tile_options": (2,),
    "set_experimental_multi_replica_distribution_options": (2, 1),
    "set_verification_options": (VerificationOptions(),),
}


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_each_logs_a_deprecation_warning(function, opts, caplog):
    caplog.clear()
    notices._forget_for_tests()  # what `opts` was made with
    arguments = ARGUMENTS.get(function.__name__, ())
    if function is legacy.create_ipu_config:
        assert isinstance(function(), IpuOptions)
    else:
        assert function(opts, *arguments) is opts
    assert len(caplog.records) == 1
    assert f"{function.__name__} is deprecated" in caplog.text


@pytest.mark.parametrize(
    "function",
    [f for f in FUNCTIONS if f is not legacy.create_ipu_config],
    ids=lambda function: function.__name__,
)
def test_each_wants_an_options_message_first(function):
    with pytest.raises(TypeError, match="`opts` must be an IpuOptions instance"):
        function(IPUConfig(), *ARGUMENTS.get(function.__name__, ()))


def test_none_leaves_earlier_values(opts):
    legacy.set_io_tile_options(opts, 4, True)
    legacy.set_io_tile_options(opts, 6, None)
    assert opts.place_ops_on_io_tiles and opts.num_io_tiles == 6
    legacy.set_ipu_model_options(opts, tiles_per_ipu=8)
    legacy.set_ipu_model_options(opts)
    assert opts.ipu_model_config.tiles_per_ipu == 8


def test_verified_transfers_are_recorded(opts):
    keys = VerificationOptions()
    keys.inputs = KeyId(1, 2)
    keys.infeeds["feed"].key = 3
    legacy.set_transfer_options(opts, use_verified_transfers=True)
    legacy.set_verification_options(opts, keys)
    stored = opts.verified_transfers
    assert stored.enabled and (stored.inputs.key, stored.inputs.start_id) == (1, 2)
    assert stored.infeeds["feed"].key == 3 and stored.outputs.start_id == -1
    legacy.set_verification_options(opts, VerificationOptions())
    assert not stored.infeeds
