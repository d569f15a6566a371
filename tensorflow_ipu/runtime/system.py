"""The attached system: which IPUs each device has; attaching, detaching, and forks."""

from __future__ import annotations

import copy
import dataclasses
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from absl import logging

from tensorflow_ipu.configs import chips, flags, poplar_options, translate, validation
from tensorflow_ipu.configs.enums import DeviceConnectionType, Effect
from tensorflow_ipu.configs.flags import Flags
from tensorflow_ipu.configs.ipu_config import OPTIONS, IPUConfig, attach_with
from tensorflow_ipu.configs.machine import MOST_IPUS, Machine, selection_permutation
from tensorflow_ipu.configs.proto import ipu_options_pb2
from tensorflow_ipu.configs.proto.ipu_options_pb2 import IpuOptions
from tensorflow_ipu.import_hook.versions import packages
from tensorflow_ipu.runtime.attachment import AttachedDevice, System, ipus_reserved
from tensorflow_ipu.util import errors
from tensorflow_ipu.util.notices import warn_once

__all__ = [
    # --- Forks, which have none of the engine's threads ---
    "AttachedDevice",
    "System",
    "configure_ipu_system",
    "current",
    "device",
    "ensure_attached",
    "get_ipu_config",
    "get_num_of_ipus_in_device",
    "is_configured",
    "ordinal_of",
    "reset_ipu_configuration",
    "subscribe",
]


class _Process:
    """State of this process."""

    uses_ipus = False
    is_fork = False


def use_process() -> None:
    """Records that this process uses IPUs; called before any use.

    Raises:
        tf.errors.FailedPreconditionError: it is a fork of a process that used them, or that used
            TensorFlow.
    """
    if _Process.is_fork:
        raise errors.failed_precondition(
            "This process cannot use IPUs: it was forked from one that was using them or "
            "TensorFlow, whose threads do not survive a fork. Start it with "
            "multiprocessing.get_context('spawn'), or fork before IPUs are configured and before "
            "TensorFlow has computed anything."
        )
    _Process.uses_ipus = True


def is_fork() -> bool:
    """Returns whether this process is a fork of a process that used IPUs."""
    return _Process.is_fork


def _after_fork_in_child() -> None:
    """Records in a fork whether its parent used IPUs."""
    _Process.is_fork |= _Process.uses_ipus or _tensorflow_has_begun()


def _tensorflow_has_begun() -> bool:
    """Returns whether TensorFlow has started the threads of eager mode."""
    module = sys.modules.get("tensorflow.python.eager.context")
    context = getattr(module, "_context", None)
    return bool(getattr(context, "_initialized", False))


os.register_at_fork(after_in_child=_after_fork_in_child)


# --- The line of the user's program that a call came from ---


def line() -> str:
    """Returns the innermost running line of a file that is of no library: `/path/train.py:12`.

    Returns:
        The absolute path of the file and the line; empty if there is none.
    """
    folders = tuple(_folders())
    frame = sys._getframe(1)
    while frame is not None:
        file = os.path.abspath(frame.f_code.co_filename)
        if not file.startswith(folders):
            return f"{file}:{frame.f_lineno}" if os.path.isfile(file) else ""
        if frame.f_back is None:
            break
        frame = frame.f_back
    return ""


def _folders() -> list[str]:
    """Returns the folders of this package and of the libraries that are loaded."""
    files = [__file__.rsplit(f"{os.sep}runtime{os.sep}", 1)[0] + os.sep]
    for name in packages.LIBRARIES:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file:
            files.append(os.path.dirname(os.path.abspath(file)) + os.sep)
    return files


# --- The IPUs of each TensorFlow IPU device, by the options ---


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


# --- The attached system: which IPUs each device has; attaching and detaching it ---

# Forms of a device name: "IPU:0", "/device:IPU:0", "/job:x/replica:0/task:0/device:IPU:0".
_DEVICE_NAME = re.compile(
    r"(?:/job:[^/]+)?(?:/replica:\d+)?(?:/task:\d+)?/?(?:device:)?IPU:(\d+)", re.IGNORECASE
)


class _State:
    """The mutable state. `change` is held while configuring, `data` only for moments."""

    def __init__(self) -> None:
        """Starts with nothing configured."""
        self.change = threading.RLock()
        self.data = threading.Condition()
        self.generation = 0
        self.configured: System | None = None
        self.default: System | None = None
        self.held: dict[int, int] = {}  # IPU -> ordinal of the device attached on demand
        self.subscribers: list[Callable[[System], None]] = []

    def replace(self, configured: System | None) -> None:
        """Makes `configured` the attached system and tells the subscribers."""
        with self.data:
            self.generation += 1
            self.default = None
            self.configured = configured and dataclasses.replace(
                configured, generation=self.generation
            )
            self.held.clear()
            self.data.notify_all()
        system = current()
        for callback in tuple(self.subscribers):
            callback(system)


_state = _State()


def is_configured() -> bool:
    """Returns whether an IPU system has been configured in this process, and not reset since."""
    return _state.configured is not None


def current() -> System:
    """Returns the attached system; when nothing is configured, one device with one IPU."""
    configured = _state.configured
    return configured if configured is not None else _default(flags.parsed())


def _default(parsed: flags.Flags) -> System:
    """Returns the system in force without a configuration."""
    with _state.data:
        if _state.default is None or _state.default.flags != parsed:
            poplar_options.check_environment()
            _state.default = _build_default(parsed)
        return _state.default


def _build_default(parsed: flags.Flags) -> System:
    """Returns one device with one IPU, in the generation in force."""
    options = translate.to_options(IPUConfig())
    return dataclasses.replace(build(options, parsed, _state.generation), config=None)


def device(ordinal: int) -> AttachedDevice:
    """Returns the device `/device:IPU:<ordinal>` of the attached system.

    Raises:
        tf.errors.FailedPreconditionError: there is no such device.
    """
    return current().device(ordinal)


def subscribe(callback: Callable[[System], None], first: bool = False) -> None:
    """Registers a callback for the new `System` after each attach and reset, and once now.

    Calls are made one at a time, by the thread that configures, before it returns to its caller.
    The first call does not fix the flags, so programs can still set TF_POPLAR_FLAGS after it.

    Args:
        callback: called with the system in force.
        first: whether it is called before earlier subscribers. The engine is one of them, and drops
            its state of the former configuration's programs.
    """
    with _state.change:
        _state.subscribers.insert(0 if first else len(_state.subscribers), callback)
        callback(_state.configured or _build_default(flags.preview()))


def configure_ipu_system(
    config: IPUConfig | IpuOptions, device: str = "cpu", reset_configuration: bool = True
) -> None:
    """Attaches TensorFlow's IPU devices as a configuration says.

    With the settings already in force nothing happens. With others, running programs are waited
    for, compiled programs and device state are dropped, and the new configuration takes effect. If
    the configuration is wrong, that in force stays.

    Args:
        config: an `IPUConfig`, or an `IpuOptions` made by `utils.create_ipu_config`.
        device: the CPU device that is local to the IPUs. There is one host here.
        reset_configuration: whether an earlier configuration with other settings may be replaced.

    Raises:
        TypeError: `config` is something else, or a library option is not a string.
        ValueError: a rule about the values is broken; the message says which.
        Exception: options that exclude each other.
        tf.errors.InvalidArgumentError: a badly made message, an unknown library option, too many
            I/O tiles, or no free IPUs for a device.
        tf.errors.FailedPreconditionError: an unsupported number of IPUs, or an earlier
            configuration while `reset_configuration` is False.
    """
    if not isinstance(device, str):
        raise TypeError(f"`device` must be a device name such as 'cpu'; received {device!r}.")

    def check_replaced() -> None:
        if not reset_configuration:
            raise errors.failed_precondition(
                "IPU system configuration has already been set in this process with other "
                "settings. Call `reset_ipu_configuration()` first, or leave "
                "`reset_configuration` on."
            )
        logging.warning("Resetting existing IPU configuration before applying new configuration.")

    _apply(config, check_replaced)


def reconfigure(config: IPUConfig) -> None:
    """Attaches IPUs as `configure_ipu_system` does, without warnings about earlier ones.

    That is for front ends whose sessions and devices choose IPUs themselves. Theirs may have more
    IPUs than the machine: these are models of IPUs.

    Args:
        config: the configuration.

    Raises:
        Exception: As `configure_ipu_system` does.
    """
    _apply(config, lambda: None, with_models=True)


def _apply(
    config: IPUConfig | IpuOptions, replacing: Callable[[], None], with_models: bool = False
) -> None:
    """Attaches devices, after calling a function if others are attached."""
    use_process()
    poplar_options.check_environment()
    with _state.change:
        # IPUs that programs are only planned for need no machine.
        with_models = with_models or bool(flags.plan_file())
        built = build(_options(config), flags.parsed(), _state.generation + 1, with_models)
        system = dataclasses.replace(built, configured_at=line())
        if _state.configured is not None:
            if system.same_settings(_state.configured):
                return
            replacing()
            _state.replace(None)
        _warn_about_ignored(system)
        _state.replace(system)


def reset_ipu_configuration() -> None:
    """Drops the configuration, after all running programs have ended.

    Does nothing if nothing is configured.
    """
    with _state.change:
        if _state.configured is not None:
            _state.replace(None)


def get_ipu_config(session: Any = None) -> list[IpuOptions]:
    """Returns the options in force.

    Args:
        session: in graph mode, a session. Accepted for old programs; it is not needed.

    Returns:
        One `IpuOptions` for each TensorFlow IPU device, all alike.

    Raises:
        AssertionError: a session was passed in eager mode.
        RuntimeError: nothing is configured.
    """
    if session is not None and _executing_eagerly():
        raise AssertionError("No session is required for eager execution.")
    configured = _state.configured
    if configured is None:
        raise RuntimeError("No IPU devices configured. Call `configure_ipu_system` first.")
    return [copy.deepcopy(configured.options) for _ in configured.devices]


def _executing_eagerly() -> bool:
    """Returns whether TensorFlow runs eagerly; TensorFlow is imported already."""
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and bool(tensorflow.executing_eagerly())


def ordinal_of(ipu_device: str) -> int:
    """Returns the ordinal in a device name.

    Args:
        ipu_device: a name such as "/device:IPU:0".

    Returns:
        The number after `IPU:`.

    Raises:
        tf.errors.InvalidArgumentError: it is not the name of an IPU device.
    """
    match = _DEVICE_NAME.fullmatch(str(ipu_device))
    if match is None:
        raise errors.invalid_argument(
            f"Invalid device name '{ipu_device}': expected an IPU device such as '/device:IPU:0'."
        )
    return int(match.group(1))


def get_num_of_ipus_in_device(ipu_device: str, device: str = "cpu") -> int:
    """Returns the number of IPUs of a TensorFlow device.

    Args:
        ipu_device: its name, such as "/device:IPU:0".
        device: the CPU device that is local to the IPUs. There is one host here.

    Returns:
        The number of IPUs.

    Raises:
        tf.errors.InvalidArgumentError: it is not the name of an IPU device.
        tf.errors.FailedPreconditionError: there is no such device.
    """
    del device
    return current().device(ordinal_of(ipu_device)).num_ipus


def ensure_attached(ordinal: int) -> AttachedDevice:
    """Makes sure that a device has its IPUs; called before it first executes a program.

    With the connection type `ON_DEMAND` this waits for IPUs held by another device, as long as
    `--on_demand_device_timeout` says. A configuration may name IPUs twice then.

    Args:
        ordinal: the device.

    Returns:
        The device.

    Raises:
        tf.errors.FailedPreconditionError: there is no such device, or it never attaches.
        tf.errors.InternalError: its IPUs did not become free in time.
    """
    began = time.monotonic()
    while True:
        system = current()
        wanted = system.device(ordinal)
        if system.connection is DeviceConnectionType.NEVER:
            raise errors.failed_precondition(
                f"/device:IPU:{ordinal} cannot execute programs, as device_connection.type is "
                "NEVER. Choose ALWAYS or ON_DEMAND."
            )
        if system.connection is not DeviceConnectionType.ON_DEMAND or system.machine.is_model:
            return wanted
        with _state.data:
            if _hold(wanted):
                return wanted
            remaining = began + system.flags.on_demand_device_timeout / 1000 - time.monotonic()
            if remaining <= 0:
                raise errors.internal(
                    f"Timed out trying to find an available device for ordinal {ordinal}: "
                    f"another device holds some of its IPUs {wanted.ipus}."
                )
            _state.data.wait(min(remaining, system.flags.on_demand_device_poll_time / 1000))


def _hold(wanted: AttachedDevice) -> bool:
    """Takes the IPUs of a device unless another device has some of them. Call with `data` held."""
    if any(_state.held.get(ipu, wanted.ordinal) != wanted.ordinal for ipu in wanted.ipus):
        return False
    _state.held.update(dict.fromkeys(wanted.ipus, wanted.ordinal))
    return True


def _options(config: Any) -> IpuOptions:
    """Returns the options message of a user's argument."""
    if isinstance(config, IPUConfig):
        return translate.to_options(config)
    if not isinstance(config, IpuOptions):
        raise TypeError(
            f"`config` must be an IpuOptions instance or an IPUConfig; received {config!r}."
        )
    if config.creator_id != ipu_options_pb2.IPU_UTILS:
        raise errors.invalid_argument(
            "Badly initialized IpuOptions object: use an IPUConfig, or make the message with "
            "create_ipu_config()."
        )
    return copy.deepcopy(config)


def _warn_about_ignored(system: System) -> None:
    """Logs a warning for each option that was set but does nothing here."""
    for name, value in system.settings.items():
        option = OPTIONS[name]
        if option.effect is Effect.IGNORED and value != option.default:
            warn_once("%s = %r is ignored. %s", name, value, option.doc)
    if system.machine.is_model and _sets_floating_point(system):
        warn_once(
            "floating_point_behaviour is not supported on the IPU model and has no effect there."
        )
    if system.options.verified_transfers.enabled:
        warn_once("Verified transfers are ignored: transfers are not simulated in detail.")


def _sets_floating_point(system: System) -> bool:
    """Returns whether an option of floating-point behaviour is not at its default."""
    return any(
        name.startswith("floating_point_behaviour.") and value != OPTIONS[name].default
        for name, value in system.settings.items()
    )


attach_with(configure_ipu_system)
