"""Option functions of TensorFlow 1 programs: each edits an `IpuOptions` message in place.

They are thin: `translate.FIELDS` says where an option is stored, and all checks that involve
several options are made when the system is configured. New programs use `IPUConfig`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tensorflow_ipu.configs import translate, validation
from tensorflow_ipu.configs.enums import (
    DeviceConnectionType,
    ExecutionProfileType,
    MergeRemoteBuffersBehaviour,
    SchedulingAlgorithm,
    SelectionOrder,
)
from tensorflow_ipu.configs.ipu_config import IPUConfig
from tensorflow_ipu.configs.proto.ipu_options_pb2 import IpuOptions
from tensorflow_ipu.configs.ranges import COUNT
from tensorflow_ipu.util.notices import warn_once
from tensorflow_ipu.util.short_repr import shows

# --- Keys for verified transfers ---


@dataclass
class KeyId:
    """The key of a verified transfer and the first id of its counter.

    Args:
        key: key number; 0 turns verification of this kind of data off.
        start_id: first id; -1 lets the system choose.
    """

    key: int = 0
    start_id: int = -1

    def __post_init__(self) -> None:
        """Checks the types at once, so that a mistake shows where it was made."""
        for name, value in (("key", self.key), ("start_id", self.start_id)):
            if type(value) is not int:
                raise TypeError(f"`{name}` of a KeyId is {value!r}, but it must be of type int.")


class _Feeds(dict[str, KeyId]):
    """Keys by feed name; a feed read for the first time gets an unset key."""

    def __missing__(self, name: str) -> KeyId:
        self[name] = KeyId()
        return self[name]


@dataclass
class VerificationOptions:
    """Keys for each kind of data that moves between host and device.

    They are used once verified transfers are on (`set_transfer_options`) and this object has been
    passed to `set_verification_options`. Each kind can be replaced or changed in place::

        o = VerificationOptions()
        o.inputs.key = 1
        o.infeeds["training"] = KeyId(2)

    Args:
        inputs: of what programs are given.
        input_parameters: of variables on their way to the device.
        outputs: of results.
        output_parameters: of variables on their way back.
        infeeds: of each infeed, by its name.
        outfeeds: of each outfeed, by its name.
        checkpoint_in: of checkpoints that are read.
        checkpoint_out: of checkpoints that are written.
    """

    inputs: KeyId = field(default_factory=KeyId)
    input_parameters: KeyId = field(default_factory=KeyId)
    outputs: KeyId = field(default_factory=KeyId)
    output_parameters: KeyId = field(default_factory=KeyId)
    infeeds: dict[str, KeyId] = field(default_factory=_Feeds)
    outfeeds: dict[str, KeyId] = field(default_factory=_Feeds)
    checkpoint_in: KeyId = field(default_factory=KeyId)
    checkpoint_out: KeyId = field(default_factory=KeyId)

    __repr__ = shows(
        lambda self: {name: kind for name, kind in vars(self).items() if kind not in (KeyId(), {})}
    )


# --- Option functions ---

_F = TypeVar("_F", bound=Callable[..., Any])

_SCHEDULERS = {
    "": SchedulingAlgorithm.CHOOSE_BEST,
    "Clustering": SchedulingAlgorithm.CLUSTERING,
    "PostOrder": SchedulingAlgorithm.POST_ORDER,
    "LookAhead": SchedulingAlgorithm.LOOK_AHEAD,
    "ShortestPath": SchedulingAlgorithm.SHORTEST_PATH,
}

_MERGING = {
    True: MergeRemoteBuffersBehaviour.MERGE,
    False: MergeRemoteBuffersBehaviour.NO_MERGING,
    None: MergeRemoteBuffersBehaviour.IF_BENEFICIAL,
}


def _deprecated(replacement: str) -> Callable[[_F], _F]:
    """Decorator: logs that the function is deprecated, with its replacement."""

    def decorate(function: _F) -> _F:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            warn_once(
                "%s is deprecated and will be removed. Use %s instead.",
                function.__name__,
                replacement,
            )
            return function(*args, **kwargs)

        return wrapper  # type: ignore[return-value]

    return decorate


def _set(opts: IpuOptions, **values: Any) -> IpuOptions:
    """Stores options given by dotted name with `__` for each dot."""
    _check_options(opts)
    for name, value in values.items():
        translate.set_option(opts, name.replace("__", "."), value)
    return opts


def _check_options(opts: Any) -> None:
    """Raises unless `opts` is an options message."""
    if not isinstance(opts, IpuOptions):
        raise TypeError(
            "`opts` must be an IpuOptions instance, as create_ipu_config() returns; received "
            f"{opts!r}."
        )


def _add(
    opts: IpuOptions,
    name: str,
    argument: str,
    values: Any,
    error: type[Exception] = Exception,
) -> IpuOptions:
    """Adds library options to those set before."""
    _check_options(opts)
    if values is not None and not isinstance(values, dict):
        raise error(f"`{argument}` must be a dictionary; received {values!r}.")
    translate.update_pairs(opts, name, values or {})
    return opts


@_deprecated("IPUConfig()")
def create_ipu_config(
    profiling: bool = False,
    enable_ipu_events: bool = False,
    use_poplar_text_report: bool = False,
    use_poplar_cbor_report: bool = False,
    profile_execution: bool | ExecutionProfileType | None = None,
    enable_poplar_serialized_graph: bool = False,
    report_every_nth_execution: int = 0,
    max_report_size: int = 0x10000000,
    report_directory: str = "",
    scheduler_selection: SchedulingAlgorithm | str = SchedulingAlgorithm.CHOOSE_BEST,
    always_rearrange_copies_on_the_host: bool = False,
    merge_infeed_io_copies: bool = False,
    disable_graph_outlining: bool = False,
    retain_control_dependencies: bool = False,
    max_cross_replica_sum_buffer_size: int = 0,
    max_inter_ipu_copies_buffer_size: int = 0,
    max_scheduler_lookahead_depth: int = 5,
    max_scheduler_search_space_size: int = 64,
    prefetch_data_streams: bool = True,
    selection_order: SelectionOrder = SelectionOrder.AUTO,
    enable_experimental_remote_buffer_embedding: bool = False,
) -> IpuOptions:
    """Makes an options message; select IPUs on it, then pass it to `configure_ipu_system`.

    Args:
        profiling: record trace events with reports.
        enable_ipu_events: record trace events without reports.
        use_poplar_text_report: reports as text.
        use_poplar_cbor_report: reports as CBOR.
        profile_execution: None or False for none, True for the whole device, or an
            `ExecutionProfileType`.
        enable_poplar_serialized_graph: add the serialised graph to events.
        report_every_nth_execution: report each Nth execution; 0 reports the first only.
        max_report_size: largest report kept, in bytes.
        report_directory: where to write reports; "" puts them into events.
        scheduler_selection: a `SchedulingAlgorithm`, or one of the strings "", "Clustering",
            "PostOrder", "LookAhead" and "ShortestPath".
        always_rearrange_copies_on_the_host: see `experimental`.
        merge_infeed_io_copies: see `optimizations`.
        disable_graph_outlining: the opposite of `optimizations.enable_graph_outlining`.
        retain_control_dependencies: recorded; control dependencies are always kept here.
        max_cross_replica_sum_buffer_size: bytes; see `optimizations`.
        max_inter_ipu_copies_buffer_size: bytes; see `optimizations`.
        max_scheduler_lookahead_depth: see `scheduling`.
        max_scheduler_search_space_size: see `scheduling`.
        prefetch_data_streams: see `optimizations`.
        selection_order: a `SelectionOrder`.
        enable_experimental_remote_buffer_embedding: see `experimental`.

    Returns:
        The message.

    Raises:
        TypeError: an unknown scheduler.
        Exception: options that exclude each other, or a wrong `profile_execution`.
    """
    execution = _execution_profile(profile_execution)
    validation.check_profiling(profiling, enable_ipu_events, execution)
    opts = translate.to_options(IPUConfig())
    opts.speed_size_config.retain_control_dependencies = retain_control_dependencies
    return _set(
        opts,
        _profiling__profiling=profiling,
        _profiling__enable_ipu_events=enable_ipu_events,
        _profiling__use_poplar_text_report=use_poplar_text_report,
        _profiling__use_poplar_cbor_report=use_poplar_cbor_report,
        _profiling__profile_execution=execution,
        _profiling__enable_poplar_serialized_graph=enable_poplar_serialized_graph,
        _profiling__report_every_nth_execution=report_every_nth_execution,
        _profiling__max_report_size=max_report_size,
        _profiling__report_directory=report_directory,
        scheduling__algorithm=_scheduler(scheduler_selection),
        experimental__always_rearrange_copies_on_the_host=always_rearrange_copies_on_the_host,
        experimental__enable_remote_buffer_embedding=enable_experimental_remote_buffer_embedding,
        optimizations__merge_infeed_io_copies=merge_infeed_io_copies,
        optimizations__enable_graph_outlining=not disable_graph_outlining,
        optimizations__maximum_cross_replica_sum_buffer_size=max_cross_replica_sum_buffer_size,
        optimizations__maximum_inter_ipu_copies_buffer_size=max_inter_ipu_copies_buffer_size,
        optimizations__prefetch_data_streams=prefetch_data_streams,
        scheduling__maximum_scheduler_lookahead_depth=max_scheduler_lookahead_depth,
        scheduling__maximum_scheduler_search_space_size=max_scheduler_search_space_size,
        selection_order=selection_order,
    )


def _execution_profile(value: Any) -> ExecutionProfileType:
    """Returns the member that a legacy `profile_execution` means."""
    if value is None or value is False:
        return ExecutionProfileType.NO_PROFILE
    if value is True:
        return ExecutionProfileType.DEVICE_PROFILE
    if not isinstance(value, ExecutionProfileType):
        raise Exception(
            "`profile_execution` must be True, False, None or an ExecutionProfileType; received "
            f"{value!r}."
        )
    return value


def _scheduler(value: Any) -> SchedulingAlgorithm:
    """Returns the member that a legacy `scheduler_selection` means."""
    if isinstance(value, SchedulingAlgorithm):
        return value
    if not isinstance(value, str) or value not in _SCHEDULERS:
        raise TypeError(
            "`scheduler_selection` must be a SchedulingAlgorithm or one of "
            f"{', '.join(map(repr, _SCHEDULERS))}; received {value!r}."
        )
    return _SCHEDULERS[value]


@_deprecated("IPUConfig.auto_select_ipus")
def auto_select_ipus(opts: IpuOptions, num_ipus: int | Sequence[int]) -> IpuOptions:
    """Adds TensorFlow devices with any free IPUs.

    Args:
        opts: the message to change.
        num_ipus: IPUs of the only device, or a list or tuple with the IPUs of each device.

    Returns:
        `opts`.

    Raises:
        Exception: IPUs have been selected before, or `num_ipus` is of another type.
    """
    _check_unselected(opts)
    if not isinstance(num_ipus, (int, list, tuple)):
        raise Exception(f"`num_ipus` must be an int, list or tuple; received {num_ipus!r}.")
    counts = [num_ipus] if isinstance(num_ipus, int) else num_ipus
    translate.select_devices(opts, "auto_count", counts)
    return opts


@_deprecated("IPUConfig.select_ipus")
def select_ipus(opts: IpuOptions, indices: Sequence[int]) -> IpuOptions:
    """Adds TensorFlow devices with given configurations of the machine's listing.

    Args:
        opts: the message to change.
        indices: the id of the configuration of each device.

    Returns:
        `opts`.

    Raises:
        Exception: IPUs have been selected before, or `indices` is not a list or tuple.
        ValueError: an id appears twice.
    """
    _check_unselected(opts)
    if not isinstance(indices, (list, tuple)):
        raise Exception(f"`indices` must be a list or tuple. Received {indices!r}.")
    if len(set(indices)) != len(indices):
        raise ValueError(f"The ids in `indices` must be unique; received {list(indices)}.")
    translate.select_devices(opts, "cfg_index", indices)
    return opts


def _check_unselected(opts: IpuOptions) -> None:
    """Raises if devices have been added before."""
    _check_options(opts)
    if opts.device_config:
        raise Exception(
            "IPU devices have already been configured. Select IPUs once per message, with all "
            "devices in one call."
        )


@_deprecated("IPUConfig.compilation_poplar_options")
def set_compilation_options(
    opts: IpuOptions, compilation_options: Mapping[str, str] | None = None
) -> IpuOptions:
    """Adds engine options, names and values both strings, to `opts` and returns it.

    Args:
        opts: the options that are changed.
        compilation_options: what is added.

    Raises:
        Exception: the options are not a dictionary.
    """
    return _add(opts, "compilation_poplar_options", "compilation_options", compilation_options)


@_deprecated("IPUConfig.convolutions.poplar_options")
def set_convolution_options(
    opts: IpuOptions, convolution_options: Mapping[str, str] | None = None
) -> IpuOptions:
    """Adds convolution options, names and values both strings, to `opts` and returns it.

    Args:
        opts: the options that are changed.
        convolution_options: what is added.

    Raises:
        Exception: the options are not a dictionary.
    """
    return _add(opts, "convolutions.poplar_options", "convolution_options", convolution_options)


@_deprecated("IPUConfig.matmuls")
def set_matmul_options(
    opts: IpuOptions,
    matmul_options: Mapping[str, str] | None = None,
    clear_pass_type: bool = False,
) -> IpuOptions:
    """Adds matrix multiplication options to `opts` and returns it.

    Args:
        opts: the message to change.
        matmul_options: library options, names and values both strings.
        clear_pass_type: plan as for inference; replaces the earlier value.

    Returns:
        `opts`.

    Raises:
        Exception: the options are not a dictionary.
    """
    _add(opts, "matmuls.poplar_options", "matmul_options", matmul_options)
    return _set(opts, matmuls__clear_pass_type=clear_pass_type)


@_deprecated("IPUConfig.pooling.poplar_options")
def set_pooling_options(
    opts: IpuOptions, pooling_options: Mapping[str, str] | None = None
) -> IpuOptions:
    """Adds pooling options, names and values both strings, to `opts` and returns it.

    Args:
        opts: the options that are changed.
        pooling_options: what is added.

    Raises:
        Exception: the options are not a dictionary.
    """
    return _add(opts, "pooling.poplar_options", "pooling_options", pooling_options)


@_deprecated("IPUConfig.gcl_poplar_options")
def set_gcl_options(opts: IpuOptions, gcl_options: Mapping[str, str] | None = None) -> IpuOptions:
    """Adds collective communication options, names and values both strings, and returns `opts`.

    Args:
        opts: the options that are changed.
        gcl_options: what is added.

    Raises:
        TypeError: the options are not a dictionary.
    """
    return _add(opts, "gcl_poplar_options", "gcl_options", gcl_options, TypeError)


@_deprecated("the tools that read the reports")
def set_report_options(
    opts: IpuOptions,
    graph_options: Mapping[str, str] | None = None,
    execution_options: Mapping[str, str] | None = None,
) -> IpuOptions:
    """Adds options of the graph and execution reports to `opts` and returns it.

    Args:
        opts: the options that are changed.
        graph_options: of the graph report.
        execution_options: of the execution report.

    Raises:
        Exception: the options are not dictionaries.
    """
    _add(opts, "_profiling.graph_poplar_options", "graph_options", graph_options)
    return _add(opts, "_profiling.execution_poplar_options", "execution_options", execution_options)


@_deprecated("IPUConfig.optimizations")
def set_optimization_options(
    opts: IpuOptions,
    combine_embedding_lookups: bool = False,
    combine_matmuls: bool = False,
    max_cross_replica_sum_buffer_size: int = 0,
    max_reduce_scatter_buffer_size: int = 0,
    max_inter_ipu_copies_buffer_size: int = 0,
    max_send_recv_cluster_size: int = 0,
    minimum_remote_tensor_size: int = 128,
    merge_remote_buffers: MergeRemoteBuffersBehaviour | bool | None = (
        MergeRemoteBuffersBehaviour.NO_MERGING
    ),
    gather_simplifier: bool = True,
    triangular_solve_expander_block_size: int = 0,
    cholesky_block_size: int = 0,
    enable_fast_math: bool = False,
) -> IpuOptions:
    """Sets all of these options of `optimizations` in `opts` and returns it.

    Args:
        opts: the message to change.
        combine_embedding_lookups: merge lookups into the same table.
        combine_matmuls: merge matrix multiplications that share an operand.
        max_cross_replica_sum_buffer_size: bytes merged at most.
        max_reduce_scatter_buffer_size: bytes merged at most.
        max_inter_ipu_copies_buffer_size: bytes merged at most.
        max_send_recv_cluster_size: bytes merged at most.
        minimum_remote_tensor_size: smallest tensor put into remote memory, in bytes.
        merge_remote_buffers: a `MergeRemoteBuffersBehaviour`; True, False and None mean `MERGE`,
            `NO_MERGING` and `IF_BENEFICIAL`.
        gather_simplifier: turn gathers into lookups.
        triangular_solve_expander_block_size: 0 leaves it to the system.
        cholesky_block_size: 0 leaves it to the system.
        enable_fast_math: allow rewrites that change rounding.

    Returns:
        `opts`.

    Raises:
        TypeError: `merge_remote_buffers` is something else.
    """
    return _set(
        opts,
        optimizations__combine_embedding_lookups=combine_embedding_lookups,
        optimizations__combine_matmuls=combine_matmuls,
        optimizations__maximum_cross_replica_sum_buffer_size=max_cross_replica_sum_buffer_size,
        optimizations__maximum_reduce_scatter_buffer_size=max_reduce_scatter_buffer_size,
        optimizations__maximum_inter_ipu_copies_buffer_size=max_inter_ipu_copies_buffer_size,
        optimizations__maximum_send_recv_cluster_size=max_send_recv_cluster_size,
        optimizations__minimum_remote_tensor_size=minimum_remote_tensor_size,
        optimizations__merge_remote_buffers=_merging(merge_remote_buffers),
        optimizations__enable_gather_simplifier=gather_simplifier,
        optimizations__triangular_solve_expander_block_size=triangular_solve_expander_block_size,
        optimizations__cholesky_block_size=cholesky_block_size,
        optimizations__enable_fast_math=enable_fast_math,
    )


def _merging(value: Any) -> MergeRemoteBuffersBehaviour:
    """Returns the member that a legacy `merge_remote_buffers` means."""
    if isinstance(value, MergeRemoteBuffersBehaviour):
        return value
    if value is not None and not isinstance(value, bool):
        raise TypeError(
            "`merge_remote_buffers` must be a MergeRemoteBuffersBehaviour, a bool or None; "
            f"received {value!r}."
        )
    return _MERGING[value]


@_deprecated("IPUConfig.norms")
def set_norm_options(
    opts: IpuOptions,
    use_stable_statistics: bool = False,
    experimental_distributed_batch_norm_replica_group_size: int = 1,
) -> IpuOptions:
    """Sets the options of normalisation ops in `opts` and returns it.

    Args:
        opts: the message to change.
        use_stable_statistics: compute the variance from differences to the mean.
        experimental_distributed_batch_norm_replica_group_size: replicas that share statistics.

    Returns:
        `opts`.

    Raises:
        ValueError: the group size is no whole number from 1.
    """
    group = experimental_distributed_batch_norm_replica_group_size
    COUNT.whole("`experimental_distributed_batch_norm_replica_group_size`", group)
    return _set(
        opts,
        norms__use_stable_statistics=use_stable_statistics,
        norms__experimental__distributed_batch_norm_replica_group_size=group,
    )


@_deprecated("IPUConfig.ipu_model")
def set_ipu_model_options(
    opts: IpuOptions,
    compile_ipu_code: bool = True,
    tiles_per_ipu: int | None = None,
    ipu_model_version: str = "ipu2",
) -> IpuOptions:
    """Sets the options of the IPU model in `opts` and returns it.

    Args:
        opts: the message to change.
        compile_ipu_code: compile device code for the model.
        tiles_per_ipu: tiles of the model; None leaves the earlier value.
        ipu_model_version: the chip, "ipu1", "ipu2" or "ipu21".

    Returns:
        `opts`.
    """
    if tiles_per_ipu is not None:
        _set(opts, ipu_model__tiles_per_ipu=tiles_per_ipu)
    return _set(
        opts, ipu_model__compile_ipu_code=compile_ipu_code, ipu_model__version=ipu_model_version
    )


@_deprecated("IPUConfig.allow_recompute")
def set_recomputation_options(opts: IpuOptions, allow_recompute: bool = True) -> IpuOptions:
    """Sets whether activations may be recomputed in `opts` and returns it.

    Args:
        opts: the options that are changed.
        allow_recompute: whether they may.
    """
    return _set(opts, allow_recompute=allow_recompute)


@_deprecated("IPUConfig.floating_point_behaviour")
def set_floating_point_behaviour_options(
    opts: IpuOptions,
    inv: bool = True,
    div0: bool = True,
    oflo: bool = True,
    esr: bool = True,
    nanoo: bool = True,
) -> IpuOptions:
    """Sets the floating-point behaviour in `opts` and returns it. All on unless switched off.

    Args:
        opts: the message to change.
        inv: stop at invalid operations.
        div0: stop at divisions by zero.
        oflo: stop at overflows.
        esr: stochastic rounding.
        nanoo: NaN on float16 overflow.

    Returns:
        `opts`.
    """
    return _set(
        opts,
        floating_point_behaviour__inv=inv,
        floating_point_behaviour__div0=div0,
        floating_point_behaviour__oflo=oflo,
        floating_point_behaviour__esr=esr,
        floating_point_behaviour__nanoo=nanoo,
    )


@_deprecated("IPUConfig.io_tiles")
def set_io_tile_options(
    opts: IpuOptions,
    num_io_tiles: int,
    place_ops_on_io_tiles: bool | None = None,
    io_tile_available_memory_proportion: float = 0.9,
) -> IpuOptions:
    """Sets the tiles reserved for I/O in `opts` and returns it.

    Args:
        opts: the message to change.
        num_io_tiles: tiles per IPU.
        place_ops_on_io_tiles: put I/O ops on them; None leaves the earlier value.
        io_tile_available_memory_proportion: part of their memory that may hold data.

    Returns:
        `opts`.
    """
    if place_ops_on_io_tiles is not None:
        _set(opts, io_tiles__place_ops_on_io_tiles=place_ops_on_io_tiles)
    return _set(
        opts,
        io_tiles__num_io_tiles=num_io_tiles,
        io_tiles__available_memory_proportion=io_tile_available_memory_proportion,
    )


@_deprecated("IPUConfig.device_connection")
def set_ipu_connection_type(
    opts: IpuOptions,
    connection_type: DeviceConnectionType = DeviceConnectionType.ALWAYS,
    ipu_version: str | int = "",
    enable_remote_buffers: bool = False,
) -> IpuOptions:
    """Sets when to attach to IPUs in `opts` and returns it.

    Args:
        opts: the message to change.
        connection_type: when to attach.
        ipu_version: chip to compile for without a device; an int n means "ipu<n>".
        enable_remote_buffers: that system has remote memory.

    Returns:
        `opts`.

    Raises:
        TypeError: `connection_type` is not a `DeviceConnectionType`.
    """
    if not isinstance(connection_type, DeviceConnectionType):
        raise TypeError(
            "`connection_type` must be a DeviceConnectionType, such as "
            f"DeviceConnectionType.ON_DEMAND; received {connection_type!r}."
        )
    version = f"ipu{ipu_version}" if isinstance(ipu_version, int) else ipu_version or ""
    return _set(
        opts,
        device_connection__type=connection_type,
        device_connection__version=version,
        device_connection__enable_remote_buffers=enable_remote_buffers,
    )


@_deprecated("IPUConfig.experimental.multi_replica_distribution")
def set_experimental_multi_replica_distribution_options(
    opts: IpuOptions, process_count: int, process_index: int
) -> IpuOptions:
    """Sets the distribution of replicas over processes in `opts` and returns it.

    Args:
        opts: the message to change.
        process_count: number of processes.
        process_index: which of them this is, from 0.

    Returns:
        `opts`.

    Raises:
        ValueError: the index is out of range.
    """
    if not 0 <= process_index < process_count:
        raise ValueError(
            "It must be that 0 <= process_index < process_count; received process_index "
            f"{process_index} and process_count {process_count}."
        )
    return _set(
        opts,
        experimental__multi_replica_distribution__process_count=process_count,
        experimental__multi_replica_distribution__process_index=process_index,
    )


@_deprecated("IPUConfig.serialization_output_folder")
def set_serialization_options(opts: IpuOptions, output_folder: str = "") -> IpuOptions:
    """Sets the directory in which executables are saved in `opts` and returns it.

    Args:
        opts: the options that are changed.
        output_folder: the directory; empty for none.
    """
    return _set(opts, serialization_output_folder=output_folder)


@_deprecated("nothing, as verified transfers are not simulated,")
def set_transfer_options(opts: IpuOptions, use_verified_transfers: bool = False) -> IpuOptions:
    """Turns verified transfers on or off in `opts` and returns it. They are recorded only.

    Args:
        opts: the options that are changed.
        use_verified_transfers: whether they are on.
    """
    _check_options(opts)
    opts.verified_transfers.enabled = use_verified_transfers
    return opts


@_deprecated("nothing, as verified transfers are not simulated,")
def set_verification_options(
    opts: IpuOptions, verification_options: VerificationOptions
) -> IpuOptions:
    """Sets the keys of verified transfers in `opts` and returns it. They are recorded only.

    Args:
        opts: the message to change.
        verification_options: keys for each kind of data.

    Returns:
        `opts`.

    Raises:
        TypeError: `verification_options` is not a `VerificationOptions`.
    """
    _check_options(opts)
    if not isinstance(verification_options, VerificationOptions):
        raise TypeError(
            "`verification_options` must be a VerificationOptions; received "
            f"{verification_options!r}."
        )
    target = opts.verified_transfers
    for name, value in vars(verification_options).items():
        if isinstance(value, KeyId):
            _store_key(getattr(target, name), value)
            continue
        getattr(target, name).clear()
        for feed, key in value.items():
            _store_key(getattr(target, name)[feed], key)
    return opts


def _store_key(target: Any, key: KeyId) -> None:
    """Copies a key into its message."""
    target.key, target.start_id = key.key, key.start_id
