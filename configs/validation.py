"""Checks of whole configurations, made when an IPU system is configured."""

from __future__ import annotations

from collections.abc import Callable

from tensorflow_ipu.configs import chips
from tensorflow_ipu.configs.enums import ExecutionProfileType
from tensorflow_ipu.configs.ipu_config import OPTIONS, IntOrInts, IPUConfig
from tensorflow_ipu.util import errors

_GROUP = "norms.experimental.distributed_batch_norm_replica_group_size"
_IO_TILES = "io_tiles.num_io_tiles"


def check(config: IPUConfig, on_model: bool) -> None:
    """Checks the options against each other and against the kind of machine.

    Args:
        config: the configuration.
        on_model: whether it is for the IPU model.

    Raises:
        Exception: the first rule broken; the class is that of the rule.
    """
    for rule in _RULES:
        rule(config, on_model)


def _as_list(value: IntOrInts) -> list[int]:
    """Returns a selection as a list: the int 0 selects something, an empty list does not."""
    return [value] if isinstance(value, int) else list(value)


def _check_selection(config: IPUConfig, on_model: bool) -> None:
    """Checks the selection of the IPUs."""
    counts, selected = _as_list(config.auto_select_ipus), _as_list(config.select_ipus)
    if counts and selected:
        raise Exception(
            "Only one of `auto_select_ipus` and `select_ipus` can be set. Received "
            f"{counts} and {selected}."
        )
    if len(set(selected)) != len(selected):
        raise ValueError(f"The ids in `select_ipus` must be unique; received {selected}.")
    if selected and on_model:
        raise Exception(
            "On the IPU model devices can only be specified with `auto_select_ipus`; received "
            f"select_ipus = {selected}."
        )


def _check_distribution(config: IPUConfig, on_model: bool) -> None:
    """Checks the distribution over several processes."""
    distribution = config.experimental.multi_replica_distribution
    index, count = distribution.process_index, distribution.process_count
    if count == 0:  # no distribution, so the index means nothing
        return
    if not 0 <= index < count:
        raise ValueError(
            "experimental.multi_replica_distribution.process_index must be in the range "
            f"[0, process_count); received process_index {index} and process_count {count}."
        )
    _check_range("experimental.multi_replica_distribution.process_count", count)
    if on_model:
        raise Exception(
            "Multi-replica distribution is not supported on the IPU model. Set "
            "experimental.multi_replica_distribution.process_count to 0, or use the machine."
        )


def _check_norms_and_io_tiles(config: IPUConfig, on_model: bool) -> None:
    """Checks distributed batch norm and I/O tiles, which exclude each other."""
    del on_model
    group = config.norms.experimental.distributed_batch_norm_replica_group_size
    _check_range(_GROUP, group)
    io_tiles = config.io_tiles
    try:
        _check_range(_IO_TILES, io_tiles.num_io_tiles)
    except ValueError as error:
        raise errors.invalid_argument(
            f"{io_tiles.num_io_tiles} is an invalid number of IO tiles: {error}"
        ) from None
    if io_tiles.num_io_tiles > 0 and group > 1:
        raise ValueError(
            f"{_GROUP} is not supported with I/O tiles. Received {group} with {_IO_TILES} "
            f"{io_tiles.num_io_tiles}; set the first to 1 or the second to 0."
        )
    if io_tiles.place_ops_on_io_tiles and io_tiles.num_io_tiles == 0:
        raise ValueError(
            "Cannot place ops on I/O tiles when io_tiles.num_io_tiles == 0. Reserve some tiles, "
            "or leave io_tiles.place_ops_on_io_tiles off."
        )


def _check_range(name: str, value: int) -> None:
    """Raises a ValueError if an option that is checked later than it is set is out of range."""
    allowed = OPTIONS[name].allowed
    if allowed is not None:
        allowed.check(f"'{name}'", value)


def _check_versions(config: IPUConfig, on_model: bool) -> None:
    """Checks the names of the chips to compile for."""
    connection = config.device_connection
    if not connection.type.attaches and not connection.version:
        raise ValueError(
            "device_connection.version must be set when device_connection.type is "
            f"{connection.type.name}, as there is no device to ask. Choose one of "
            f"{', '.join(chips.names())}."
        )
    named = {"device_connection.version": connection.version}
    if on_model:
        if not config.ipu_model.version:
            raise ValueError(
                "ipu_model.version must be set on the IPU model. Choose one of "
                f"{', '.join(chips.names())}."
            )
        named["ipu_model.version"] = config.ipu_model.version
    for option, version in named.items():
        try:
            chips.get(version or chips.DEFAULT.name)
        except ValueError as error:
            raise ValueError(f"{option}: {error}") from None


def _check_profiling(config: IPUConfig, on_model: bool) -> None:
    """Checks the private profiling options."""
    del on_model
    profiling = config._profiling
    check_profiling(profiling.profiling, profiling.enable_ipu_events, profiling.profile_execution)


def check_profiling(
    profiling: bool, enable_ipu_events: bool, profile_execution: ExecutionProfileType
) -> None:
    """Checks that the profiling options go together.

    Args:
        profiling: record trace events with reports.
        enable_ipu_events: record trace events without reports.
        profile_execution: how finely executions are profiled.

    Raises:
        Exception: they do not.
    """
    if profiling and enable_ipu_events:
        raise Exception(
            "`profiling` and `enable_ipu_events` cannot be used together: the first gives events "
            "with reports, the second events without. Choose one."
        )
    if profile_execution is not ExecutionProfileType.NO_PROFILE and not profiling:
        raise Exception("`profile_execution` needs `profiling` to be on as well.")


_RULES: tuple[Callable[[IPUConfig, bool], None], ...] = (
    _check_selection,
    _check_distribution,
    _check_norms_and_io_tiles,
    _check_versions,
    _check_profiling,
)
