"""The IPUs of each TensorFlow IPU device, by the options."""

from __future__ import annotations

from tensorflow_ipu.configs import chips, flags, poplar_options, translate, validation
from tensorflow_ipu.configs.enums import DeviceConnectionType
from tensorflow_ipu.configs.flags import Flags
from tensorflow_ipu.configs.ipu_config import IPUConfig
from tensorflow_ipu.configs.machine import MOST_IPUS, Machine, selection_permutation
from tensorflow_ipu.configs.proto.ipu_options_pb2 import IpuOptions
from tensorflow_ipu.device.attachment import AttachedDevice, System, ipus_reserved
from tensorflow_ipu.util import errors


def build(options: IpuOptions, parsed: Flags, generation: int, with_models: bool = False) -> System:
    """Checks options and gives every device its IPUs.

    Args:
        options: the options, with a value for each.
        parsed: the flags of the process.
        generation: the generation of the result.
        with_models: whether a device may have more IPUs than the machine: then it is a model.

    Returns:
        The system, attached to nothing yet.

    Raises:
        Exception: as for `system.configure_ipu_system`.
    """
    config = translate.from_options(options)
    validation.check(config, parsed.use_ipu_model)
    poplar_options.check(config)
    machine = _machine(config, parsed)
    return System(
        generation=generation,
        config=config,
        options=options,
        devices=_devices(config, machine, with_models),
        machine=machine,
        flags=parsed,
    )


def _machine(config: IPUConfig, parsed: Flags) -> Machine:
    """Returns the machine: the model if the flags say so, otherwise the requested chip's."""
    connection = config.device_connection
    if parsed.use_ipu_model:
        tiles = config.ipu_model.tiles_per_ipu or max(0, parsed.ipu_model_tiles)
        chip = chips.get(config.ipu_model.version)
        return Machine(chip.with_tiles(tiles) if tiles else chip, is_model=True)
    if connection.type.attaches:
        return Machine(flags.chip())
    return Machine(chips.get(connection.version))


def _devices(config: IPUConfig, machine: Machine, with_models: bool) -> tuple[AttachedDevice, ...]:
    """Returns the devices with their IPUs in selection order."""
    busy: set[int] = set()
    devices = []
    by_id = bool(config.select_ipus)
    for ordinal, value in enumerate(config.select_ipus or config.auto_select_ipus or [1]):
        connection = config.device_connection.type
        if machine.is_model or (not by_id and not connection.attaches):
            ipus = _numbered(ordinal, value, len(busy), machine)
        elif with_models and not by_id and value > machine.num_ipus:
            beyond = sum(ipu >= machine.num_ipus for ipu in busy)
            ipus = _numbered(ordinal, value, machine.num_ipus + beyond, machine)
        else:
            ipus = _select(ordinal, value, by_id, busy, connection, machine)
        order = selection_permutation(config.selection_order, len(ipus))
        devices.append(AttachedDevice(ordinal, tuple(ipus[i] for i in order), machine.chip))
        busy.update(ipus)
    return tuple(devices)


def _numbered(ordinal: int, count: int, start: int, machine: Machine) -> tuple[int, ...]:
    """Returns IPUs without a place in the machine: the model's, or for compilation only."""
    rule = f"from 1 to {MOST_IPUS}" + ("" if machine.is_model else ", a power of two")
    if not 1 <= count <= MOST_IPUS or (not machine.is_model and ipus_reserved(count) != count):
        raise errors.failed_precondition(
            f"Unsupported number of IPUs requested for ordinal {ordinal}: {count}. The number of "
            f"IPUs must be {rule}."
        )
    return tuple(range(start, start + count))


def _select(
    ordinal: int,
    value: int,
    by_id: bool,
    busy: set[int],
    connection: DeviceConnectionType,
    machine: Machine,
) -> tuple[int, ...]:
    """Returns the IPUs of the machine, by id of the listing or by number."""
    if not by_id and value not in machine.sizes:
        raise errors.failed_precondition(
            f"Unsupported number of IPUs requested for ordinal {ordinal}: {value}. {machine.offer}"
        )
    taken = busy if connection is DeviceConnectionType.ALWAYS else set()
    if by_id:
        found = machine.by_id(value)
        wanted = f"id {value} of the listing (0 to {len(machine.configurations) - 1})"
    else:
        # A device that attaches later may share IPUs, but only if there are no others.
        found = machine.by_count(value, busy) or machine.by_count(value, taken)
        wanted = f"{value} IPU(s)"
    if found is None or taken & set(found.ipus):
        raise errors.invalid_argument(
            f"No device matches the requested configuration for ordinal {ordinal}: {wanted}, with "
            f"{len(busy)} of {machine.num_ipus} IPUs in use by the devices before it."
        )
    return found.ipus
