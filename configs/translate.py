"""Translation between `IPUConfig` and the `IpuOptions` message, from one table of fields."""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tensorflow_ipu.configs import attributes
from tensorflow_ipu.configs.enums import (
    DeviceConnectionType,
    ExecutionProfileType,
    MergeRemoteBuffersBehaviour,
    SchedulingAlgorithm,
    SelectionOrder,
    StochasticRoundingBehaviour,
)
from tensorflow_ipu.configs.ipu_config import OPTIONS, IPUConfig
from tensorflow_ipu.configs.proto import ipu_options_pb2
from tensorflow_ipu.configs.proto.ipu_options_pb2 import IpuOptions
from tensorflow_ipu.configs.ranges import shown

_FLOATING_POINT = ("inv", "div0", "oflo", "esr", "nanoo")


@dataclass(frozen=True)
class Plain:
    """A value stored as it is."""

    def store(self, value: Any) -> Any:
        """Returns the value of the field for an option's value."""
        return value

    def load(self, stored: Any) -> Any:
        """Returns the option's value for the value of a field."""
        return stored


@dataclass(frozen=True)
class Inverted(Plain):
    """A bool stored as its opposite."""

    def store(self, value: Any) -> Any:
        """Returns the value of the field for an option's value."""
        return not value

    def load(self, stored: Any) -> Any:
        """Returns the option's value for the value of a field."""
        return not stored


@dataclass(frozen=True)
class Member(Plain):
    """An enumeration member stored as its number."""

    type: type[enum.Enum]

    def store(self, value: Any) -> Any:
        """Returns the value of the field for an option's value."""
        if not isinstance(value, self.type):
            raise TypeError(f"it must be of type {self.type.__name__}")
        return value.value

    def load(self, stored: Any) -> Any:
        """Returns the option's value for the value of a field."""
        return self.type(stored)


@dataclass(frozen=True)
class Rounding(Plain):
    """Stochastic rounding, a bool or a member: OFF and ON come back as bools."""

    def store(self, value: Any) -> Any:
        """Returns the value of the field for an option's value."""
        return value.value if isinstance(value, StochasticRoundingBehaviour) else int(value)

    def load(self, stored: Any) -> Any:
        """Returns the option's value for the value of a field."""
        member = StochasticRoundingBehaviour(stored)
        partial = member is StochasticRoundingBehaviour.REPLICA_IDENTICAL_ONLY
        return member if partial else member is StochasticRoundingBehaviour.ON


@dataclass(frozen=True)
class Pairs(Plain):
    """A dictionary of strings stored as a list of option/value pairs, sorted by option."""

    def load(self, stored: Any) -> Any:
        """Returns the option's value for the value of a field."""
        return {flag.option: flag.value for flag in stored}


_PLAIN, _PAIRS = Plain(), Pairs()

# Options that are stored in a field of another name, or in another form.
_DIFFERENT: Mapping[str, tuple[str, Plain]] = {
    "allow_recompute": ("speed_size_config.allow_recompute", _PLAIN),
    "selection_order": ("selection_order", Member(SelectionOrder)),
    "serialization_output_folder": ("serialization_folder", _PLAIN),
    "compilation_poplar_options": ("compilation_options", _PAIRS),
    "gcl_poplar_options": ("gcl_options", _PAIRS),
    "convolutions.poplar_options": ("convolution_options", _PAIRS),
    "device_connection.type": ("device_connection_type", Member(DeviceConnectionType)),
    "device_connection.version": ("ipu_version", _PLAIN),
    "device_connection.enable_remote_buffers": ("enable_remote_buffers_without_device", _PLAIN),
    "experimental.always_rearrange_copies_on_the_host": (
        "speed_size_config.always_rearrange_copies_on_the_host",
        _PLAIN,
    ),
    "experimental.multi_replica_distribution.process_index": (
        "multi_replica_process_index",
        _PLAIN,
    ),
    "experimental.multi_replica_distribution.process_count": (
        "multi_replica_process_count",
        _PLAIN,
    ),
    "floating_point_behaviour.inv": ("floating_point_behaviour.inv", _PLAIN),
    "floating_point_behaviour.div0": ("floating_point_behaviour.div0", _PLAIN),
    "floating_point_behaviour.oflo": ("floating_point_behaviour.oflo", _PLAIN),
    "floating_point_behaviour.esr": ("floating_point_behaviour.esr", Rounding()),
    "floating_point_behaviour.nanoo": ("floating_point_behaviour.nanoo", _PLAIN),
    "floating_point_behaviour.set_all": ("floating_point_behaviour.set_all", _PLAIN),
    "io_tiles.available_memory_proportion": ("io_tile_available_memory_proportion", _PLAIN),
    "ipu_model.compile_ipu_code": ("ipu_model_config.compile_ipu_code", _PLAIN),
    "ipu_model.tiles_per_ipu": ("ipu_model_config.tiles_per_ipu", _PLAIN),
    "ipu_model.version": ("ipu_model_config.ipu_model_version", _PLAIN),
    "matmuls.clear_pass_type": ("clear_matmul_pass_type", _PLAIN),
    "matmuls.poplar_options": ("matmul_options", _PAIRS),
    "norms.use_stable_statistics": ("use_stable_norm_statistics", _PLAIN),
    "norms.experimental.distributed_batch_norm_replica_group_size": (
        "experimental_distributed_batch_norm_replica_group_size",
        _PLAIN,
    ),
    "optimizations.combine_embedding_lookups": ("enable_multi_slice_combiner", _PLAIN),
    "optimizations.combine_matmuls": ("enable_matmul_combiner", _PLAIN),
    "optimizations.enable_graph_outlining": (
        "speed_size_config.disable_graph_outlining",
        Inverted(),
    ),
    "optimizations.merge_infeed_io_copies": ("speed_size_config.merge_infeed_io_copies", _PLAIN),
    "optimizations.maximum_cross_replica_sum_buffer_size": (
        "max_cross_replica_sum_buffer_size",
        _PLAIN,
    ),
    "optimizations.maximum_reduce_scatter_buffer_size": ("max_reduce_scatter_buffer_size", _PLAIN),
    "optimizations.maximum_inter_ipu_copies_buffer_size": (
        "max_inter_ipu_copies_buffer_size",
        _PLAIN,
    ),
    "optimizations.maximum_send_recv_cluster_size": ("max_send_recv_cluster_size", _PLAIN),
    "optimizations.maximum_reduce_many_buffer_size": ("max_reduce_many_buffer_size", _PLAIN),
    "optimizations.maximum_all_gather_buffer_size": ("max_all_gather_buffer_size", _PLAIN),
    "optimizations.merge_remote_buffers": (
        "merge_remote_buffers",
        Member(MergeRemoteBuffersBehaviour),
    ),
    "optimizations.math.fast": ("algebraic_simplifier_config.enable_fast_math", _PLAIN),
    "optimizations.math.dot_strength": ("algebraic_simplifier_config.enable_dot_strength", _PLAIN),
    "pooling.poplar_options": ("pooling_options", _PAIRS),
    "scheduling.algorithm": ("speed_size_config.scheduler_selection", Member(SchedulingAlgorithm)),
    "scheduling.maximum_scheduler_lookahead_depth": ("max_scheduler_lookahead_depth", _PLAIN),
    "scheduling.maximum_scheduler_search_space_size": ("max_scheduler_search_space_size", _PLAIN),
    "slices.poplar_options": ("slice_options", _PAIRS),
    "_profiling.profiling": ("profiling.enable_compilation_trace", _PLAIN),
    "_profiling.enable_ipu_events": ("profiling.enable_ipu_trace_events", _PLAIN),
    "_profiling.use_poplar_text_report": ("profiling.enable_poplar_reports_text", _PLAIN),
    "_profiling.use_poplar_cbor_report": ("profiling.enable_poplar_reports_cbor", _PLAIN),
    "_profiling.profile_execution": (
        "profiling.execution_trace_type",
        Member(ExecutionProfileType),
    ),
    "_profiling.enable_poplar_serialized_graph": ("profiling.enable_poplar_graph", _PLAIN),
    "_profiling.report_every_nth_execution": ("profiling.report_every_nth_execution", _PLAIN),
    "_profiling.max_report_size": ("profiling.max_report_size", _PLAIN),
    "_profiling.report_directory": ("profiling.report_directory", _PLAIN),
    "_profiling.graph_poplar_options": ("profiling.graph_options", _PAIRS),
    "_profiling.execution_poplar_options": ("profiling.execution_options", _PAIRS),
    "_profiling.auto_assign_report_subdirectories": (
        "profiling.auto_assign_report_subdirectories",
        _PLAIN,
    ),
}
_SAME = {name: name.rpartition(".")[2] for name in OPTIONS}

#: Option -> (path of its field in IpuOptions, how the value is stored). An option with a field of
#: its own name is stored there as it is. `auto_select_ipus` and `select_ipus` are not here:
#: together they make `device_config`.
FIELDS: Mapping[str, tuple[str, Plain]] = {
    **{n: (f, _PLAIN) for n, f in _SAME.items() if f in IpuOptions.DESCRIPTOR.fields_by_name},
    **_DIFFERENT,
}


def to_options(config: IPUConfig) -> IpuOptions:
    """Translates a configuration.

    An int `auto_select_ipus` or `select_ipus` becomes a list with one entry on `config`; nothing
    else of it changes.

    Args:
        config: the configuration.

    Returns:
        A message with a value for every option.

    Raises:
        TypeError: a library option is not a string.
        ValueError: a number is too large for the message.
    """
    options = IpuOptions(creator_id=ipu_options_pb2.IPU_UTILS)
    for name in ("auto_select_ipus", "select_ipus"):
        if isinstance(getattr(config, name), int):
            setattr(config, name, [getattr(config, name)])
    select_devices(options, "auto_count", config.auto_select_ipus)
    select_devices(options, "cfg_index", config.select_ipus)
    for name, value in config.items():
        if name in FIELDS:
            set_option(options, name, value)
    if config.floating_point_behaviour.set_all:
        for name in _FLOATING_POINT:
            set_option(options, f"floating_point_behaviour.{name}", True)
    return options


def from_options(options: IpuOptions) -> IPUConfig:
    """Translates a message back.

    Options that only the legacy functions set (verified transfers, control dependencies) have no
    place in a configuration and are left out.

    Args:
        options: a message made by `to_options` or the legacy functions.

    Returns:
        The configuration.
    """
    config = IPUConfig()
    selections = [(d.WhichOneof("selection"), d) for d in options.device_config]
    config.auto_select_ipus = [d.auto_count for kind, d in selections if kind == "auto_count"]
    config.select_ipus = [d.cfg_index for kind, d in selections if kind == "cfg_index"]
    for name in FIELDS:
        *categories, leaf = name.split(".")
        node = functools.reduce(getattr, categories, config)
        # Stored without warnings: whoever made the message has had those about deprecation.
        attributes.store(node, leaf, get_option(options, name))
    return config


def get_option(options: IpuOptions, name: str) -> Any:
    """Returns the value of the option called `name` (as in `IPUConfig`) in a message."""
    path, codec = FIELDS[name]
    parent, leaf = _resolve(options, path)
    return codec.load(getattr(parent, leaf))


def set_option(options: IpuOptions, name: str, value: Any) -> None:
    """Stores the value of an option in a message; a dictionary replaces the earlier one.

    Args:
        options: the message to change.
        name: dotted name of the option in `IPUConfig`.
        value: its value, of the option's type.

    Raises:
        TypeError: the value is of the wrong type, or a library option is not a string.
        ValueError: a number is too large for the message.
    """
    path, codec = FIELDS[name]
    parent, leaf = _resolve(options, path)
    if isinstance(codec, Pairs):
        _check_strings(name, value)
        parent.ClearField(leaf)
        _add_pairs(name, getattr(parent, leaf), value)
        return
    try:
        OPTIONS[name].check(name, value)
        _store(parent, leaf, codec.store(value), name)
    except TypeError as error:
        raise TypeError(f"'{name}' cannot be {shown(value)}: {error}.") from None


def _store(message: Any, field: str, stored: Any, name: str) -> None:
    """Sets a field to the value of an option."""
    try:
        setattr(message, field, stored)
    except (ValueError, OverflowError):
        allowed = OPTIONS[name].allowed or "text in UTF-8"
        raise ValueError(f"'{name}' must be {allowed}; received {shown(stored)}.") from None


def update_pairs(options: IpuOptions, name: str, values: Mapping[str, str]) -> None:
    """Adds entries to a dictionary option; entries with other names are kept.

    Args:
        options: the message to change.
        name: dotted name of the option in `IPUConfig`.
        values: entries to add or to replace.

    Raises:
        TypeError: a name or value is not a string.
    """
    set_option(options, name, {**get_option(options, name), **values})


def select_devices(options: IpuOptions, field: str, values: Iterable[int]) -> None:
    """Adds one TensorFlow device per entry of `values`.

    Args:
        options: the message to change.
        field: "auto_count" or "cfg_index".
        values: the numbers of IPUs, or ids of the machine's listing.

    Raises:
        TypeError: an entry is not an int.
        ValueError: a number is too large for the message.
    """
    option = "auto_select_ipus" if field == "auto_count" else "select_ipus"
    for value in values:
        try:
            device = IpuOptions.DeviceConfig(**{field: value})
        except TypeError as error:
            raise TypeError(f"Cannot select IPUs with {shown(value)}: {error}.") from None
        except ValueError:
            raise ValueError(
                f"'{option}' must be {OPTIONS[option].allowed}; received {shown(value)}."
            ) from None
        options.device_config.append(device)


def _resolve(options: IpuOptions, path: str) -> tuple[Any, str]:
    """Returns the message that holds the field at `path`, and the field's own name."""
    *parents, leaf = path.split(".")
    node: Any = options
    for parent in parents:
        node = getattr(node, parent)
    return node, leaf


def _check_strings(name: str, values: Mapping[Any, Any]) -> None:
    """Raises unless names and values of library options are strings."""
    for key, value in values.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(
                f"'{name}' maps strings to strings; received {key!r}: {value!r}. Write "
                f"'{key}': '{str(value).lower() if isinstance(value, bool) else value}'."
            )


def _add_pairs(name: str, target: Any, values: Mapping[str, str]) -> None:
    """Appends option/value pairs, sorted so that equal dictionaries give equal messages."""
    for key in sorted(values):
        try:
            target.add(option=key, value=values[key])
        except ValueError:
            raise ValueError(
                f"Names and values in '{name}' must be text in UTF-8; received {shown(key)}: "
                f"{shown(values[key])}."
            ) from None
