"""The System: options, flags and the IPUs that a configuration gives to each device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tensorflow_ipu.configs import enums, flags
from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.configs.enums import DeviceConnectionType
from tensorflow_ipu.configs.flags import Flags
from tensorflow_ipu.configs.ipu_config import IPUConfig
from tensorflow_ipu.configs.machine import Machine
from tensorflow_ipu.configs.proto.ipu_options_pb2 import IpuOptions
from tensorflow_ipu.util import errors
from tensorflow_ipu.util.short_repr import shows


@dataclass(frozen=True)
class AttachedDevice:
    """A TensorFlow IPU device and its IPUs.

    Args:
        ordinal: k of `/device:IPU:k`.
        ipus: ids of the machine's IPUs in selection order: shard 0's first.
        chip: the chip of all of them.
    """

    ordinal: int
    ipus: tuple[int, ...]
    chip: Chip

    @property
    def num_ipus(self) -> int:
        """Number of IPUs of the device."""
        return len(self.ipus)


@dataclass(frozen=True)
class System:
    """The attached configuration: options, machine and the IPUs of each device.

    Args:
        generation: increases with every change of configuration; 0 at the start of the process.
        config: a private copy of the options; None when nothing has been configured.
        options: the options as a message. Private too: do not change it.
        devices: the TensorFlow IPU devices by ordinal.
        machine: the machine of their IPUs.
        flags: the flags of the process, which decide with the options.
        environment: the engine options of the environment; see `with_environment`.
        configured_at: file and line of the user's program that configured this, such as
            `/path/train.py:12`; empty if that is not known.
    """

    generation: int
    config: IPUConfig | None
    options: IpuOptions
    devices: tuple[AttachedDevice, ...]
    machine: Machine
    flags: Flags
    environment: Mapping[str, str] = field(default_factory=dict)
    configured_at: str = field(default="", compare=False)

    __repr__ = shows(
        lambda self: {
            "generation": self.generation,
            "ipus_of_devices": [device.ipus for device in self.devices],
            "machine": self.machine,
            "config": self.config,
        }
    )

    @property
    def settings(self) -> IPUConfig:
        """The options in force: `config`, or the defaults when nothing has been configured."""
        return IPUConfig() if self.config is None else self.config

    @property
    def connection(self) -> DeviceConnectionType:
        """When devices attach to their IPUs."""
        return DeviceConnectionType(self.options.device_connection_type)

    @property
    def pre_compiles(self) -> bool:
        """Whether programs are only compiled and saved, for devices that are never attached."""
        return self.connection is DeviceConnectionType.PRE_COMPILE

    @property
    def plans_only(self) -> bool:
        """Whether this process ends before programs run, with a report of the first one."""
        return bool(flags.plan_file())

    @property
    def remote_buffers(self) -> bool:
        """Whether programs may use remote memory: simulated IPUs always have some."""
        attached = self.connection is DeviceConnectionType.ALWAYS
        return attached or self.options.enable_remote_buffers_without_device

    @property
    def num_io_tiles(self) -> int:
        """Tiles per IPU reserved for I/O: an odd number is rounded up."""
        return self.options.num_io_tiles + self.options.num_io_tiles % 2

    @property
    def place_ops_on_io_tiles(self) -> bool:
        """Whether feeds and remote buffers go through the tiles reserved for I/O."""
        return bool(self.settings.io_tiles.place_ops_on_io_tiles)

    @property
    def allow_recompute(self) -> bool:
        """Whether programs may recompute activations instead of keeping them."""
        return bool(self.settings.allow_recompute)

    def partials_type(self, family: str) -> str | None:
        """Returns the type in which ops of a family add, "half" or "float"; None without an option.

        Args:
            family: "matmuls" or "convolutions".
        """
        options: dict[str, str] = getattr(self.settings, family).poplar_options
        return enums.PARTIALS_OF_OPTION.get(options.get(enums.PARTIALS_OPTION, ""))

    @property
    def engine_options(self) -> dict[str, str]:
        """The engine options: `environment` overrides the configured ones."""
        configured: dict[str, str] = self.settings.compilation_poplar_options
        return {**configured, **self.environment}

    def with_environment(self) -> System:
        """Returns the System with the present engine options of the environment.

        A program has the options of its request: programs set them before the first run, which may
        be after configuring.

        Raises:
            ValueError: the variable does not hold a JSON object of strings.
        """
        return replace(self, environment=flags.library_options(flags.ENGINE_OPTIONS))

    @property
    def process_count(self) -> int:
        """Processes that share the replicas of a program; 1 without distribution."""
        return max(1, self.options.multi_replica_process_count)

    @property
    def process_index(self) -> int:
        """Index of this process among these processes, from 0."""
        return int(self.options.multi_replica_process_index) if self.process_count > 1 else 0

    def has_device(self, ordinal: int) -> bool:
        """Returns whether there is a device with this ordinal."""
        return 0 <= ordinal < len(self.devices)

    def device(self, ordinal: int) -> AttachedDevice:
        """Returns the device with this ordinal.

        Raises:
            tf.errors.FailedPreconditionError: there is none.
        """
        if not self.has_device(ordinal):
            raise errors.failed_precondition(
                f"No device target has been configured for ordinal {ordinal}. The configuration "
                f"has {len(self.devices)} device(s); add one with `auto_select_ipus` or "
                "`select_ipus`."
            )
        return self.devices[ordinal]

    def replication_factor(self, ordinal: int, ipus_used: int) -> int:
        """Returns the number of replicas of a program on a device.

        It is the number of IPUs of the device divided by the IPUs of one replica. The IPU model
        does not replicate, like the original: there it is 1.

        Args:
            ordinal: the device.
            ipus_used: the highest shard or pipeline device of the program, plus one.

        Returns:
            The number of replicas in this process.

        Raises:
            tf.errors.InternalError: the device's IPUs are not a whole multiple of the program's.
            tf.errors.FailedPreconditionError: there is no such device.
        """
        available = self.device(ordinal).num_ipus
        reserved = ipus_reserved(ipus_used)
        if available % reserved:
            raise errors.internal(
                "The number of shards needs to divide the number of IPUs. The highest IPU that the "
                f"program names is {ipus_used - 1}, which takes {reserved} of them (a power of "
                f"two), and /device:IPU:{ordinal} has {available}. {self.advice(reserved)}"
            )
        return 1 if self.machine.is_model else available // reserved

    def advice(self, ipus: int) -> str:
        """Returns a sentence for errors about the number of IPUs to select.

        Args:
            ipus: IPUs that a replica of it takes, a power of two.
        """
        # A device that is only compiled for may be larger than this machine.
        attached = self.machine.is_model or self.connection.attaches
        return self.machine.advice(ipus) if attached else f"Select a multiple of {ipus} IPUs."

    def fingerprint(self) -> bytes:
        """Returns bytes that are equal for equal options."""
        return bytes(self.options.SerializeToString(deterministic=True))

    def same_settings(self, other: System) -> bool:
        """Returns whether `other` has the same options and the same IPUs."""
        return (self.fingerprint(), self.devices, self.machine) == (
            other.fingerprint(),
            other.devices,
            other.machine,
        )


def ipus_reserved(ipus_used: int) -> int:
    """Returns the IPUs that one replica occupies: `ipus_used` rounded up to a power of two."""
    return 1 << (max(1, ipus_used) - 1).bit_length()
