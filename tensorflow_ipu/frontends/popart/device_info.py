"""`DeviceInfo`: some IPUs of the machine, or what stands for them."""

from __future__ import annotations

import time
from typing import Any

from tensorflow_ipu.configs import chips
from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.configs.machine import Machine
from tensorflow_ipu.frontends.popart import attachment
from tensorflow_ipu.frontends.popart.enums import DeviceConnectionType, DeviceType
from tensorflow_ipu.frontends.popart.errors import popart_exception

_UNATTACHED = "<unknown-ipu-unattached>"
_WORKERS = 6
# How long devices that are made from now on wait for IPUs.
_wait = {"seconds": 0}


class DeviceInfo:
    """A device: some IPUs, or what stands for them."""

    def __init__(
        self,
        type: DeviceType,  # noqa: A002
        connection: DeviceConnectionType,
        ipus: int,
        tiles: int,
        version: str = "ipu2",
        id: int = 0,  # noqa: A002
    ) -> None:
        """Makes a device; programs get them from a `DeviceManager`.

        Args:
            type: kind of device.
            connection: when it is attached.
            ipus: how many IPUs it has.
            tiles: tiles of an IPU.
            version: version of the IPUs.
            id: its number in the machine.
        """
        self._type = type
        self._connection = connection
        self._ipus = ipus
        self._tiles = tiles
        self._version = version
        self._id = id
        self._ordinal: int | None = None
        self._timeout = _wait["seconds"]

    def __repr__(self) -> str:
        ids = ", ".join(map(str, self.driverIds))
        return (
            f"Device Type:{self._type} Connection Type:{self._connection.name.lower()} "
            f"Id:{self._id} Version:{self.version} NumIPUs:{self._ipus} "
            f"NumTilesPerIPU:{self._tiles} DeviceIds: {{{ids}}}"
        )

    def __enter__(self) -> DeviceInfo:
        return self

    def __exit__(self, *error: Any) -> None:
        self.detach()

    @property
    def type(self) -> DeviceType:
        """The kind of device."""
        return self._type

    @property
    def connectionType(self) -> DeviceConnectionType:
        """When it is attached."""
        return self._connection

    @property
    def version(self) -> str:
        """Version of the driver, unknown while it is not attached; of a model that of its IPUs."""
        if self._type is DeviceType.IpuModel:
            return self._version
        return "1.0.0" if self.isAttached else _UNATTACHED

    @property
    def ipuVersion(self) -> str:
        """Version of the IPUs."""
        return self._version

    @property
    def id(self) -> int:
        """Its number in the machine."""
        return self._id

    @property
    def numIpus(self) -> int:
        """How many IPUs it has."""
        return self._ipus

    @property
    def tilesPerIPU(self) -> int:
        """Tiles of an IPU."""
        return self._tiles

    @property
    def tilesPerIpu(self) -> int:
        """Tiles of an IPU."""
        return self._tiles

    @property
    def driverIds(self) -> list[int]:
        """Numbers of its IPUs."""
        listed = machine().by_id(self._id) if self._type is DeviceType.Ipu else None
        return list(listed.ipus if listed else range(self._ipus))

    @property
    def chip(self) -> Chip:
        """Figures of its IPUs: what its programs are planned for."""
        if self._type is DeviceType.Cpu:
            return attachment.chip()
        is_real = self._type is DeviceType.Ipu
        chip = attachment.chip() if is_real else chips.get(_chip_name(self._version))
        return chip if self._tiles == chip.tiles else chip.with_tiles(self._tiles)

    @property
    def isAttached(self) -> bool:
        """Whether this program has it."""
        return self._ordinal is not None

    @property
    def numWorkerContexts(self) -> int:
        """Threads of a tile."""
        return _WORKERS

    @property
    def ordinal(self) -> int:
        """The TensorFlow device that it is.

        Raises:
            popart_exception: If it is not attached.
        """
        if self._ordinal is None:
            raise popart_exception("The device is not attached. Call attach().")
        return self._ordinal

    def attach(self) -> bool:
        """Takes the IPUs.

        Returns:
            Whether it has them.
        """
        if self._connection is DeviceConnectionType.Never:
            return False
        if self._ordinal is None:
            place = (self._id, self.driverIds) if self._type is DeviceType.Ipu else (None, None)
            self._ordinal = attachment.attach(self, self._ipus, *place)
        return self.isAttached

    def tryAttachUntilTimeout(self) -> bool:
        """Takes the IPUs, and waits for them as long as the `DeviceManager` says.

        Returns:
            Whether it has them.
        """
        end = time.monotonic() + self._timeout
        while not self.attach():
            if time.monotonic() >= end:
                return False
            time.sleep(0.1)
        return True

    def detach(self) -> None:
        """Gives the IPUs back."""
        attachment.detach(self)
        self._ordinal = None


def wait_at_most(seconds: int) -> None:
    """Sets how long devices that are made from now on wait for IPUs.

    Args:
        seconds: the time.
    """
    _wait["seconds"] = seconds


def machine() -> Machine:
    """Returns the machine that devices are IPUs of."""
    return Machine(attachment.chip())


def _chip_name(version: str) -> str:
    """Returns the chip of a version; "ipu:..." leads to a description of another one."""
    return "ipu2" if version.startswith("ipu:") else version
