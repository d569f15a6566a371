"""`DeviceInfo` and `DeviceManager`: devices, and their attachment to TensorFlow devices."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tensorflow_ipu.compiler.checks.capacity import chosen_policy
from tensorflow_ipu.configs import chips
from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.configs.machine import Machine
from tensorflow_ipu.distributed import joining
from tensorflow_ipu.distributed.instances import Instances, of_poprun
from tensorflow_ipu.frontends.common import device_table
from tensorflow_ipu.frontends.common.enums import (
    DeviceConnectionType,
    DeviceSelectionCriterion,
    DeviceType,
    SyncPattern,
)
from tensorflow_ipu.frontends.popart.errors import popart_exception, poplar_exception
from tensorflow_ipu.frontends.popart.signatures import checked
from tensorflow_ipu.runtime import system
from tensorflow_ipu.runtime.attachment import ipus_reserved
from tensorflow_ipu.tuning.advice import out_of_memory
from tensorflow_ipu.util.notices import warn_once

# --- Attachment ---


def attach(
    owner: Any, ipus: int, number: int | None = None, ids: Sequence[int] | None = None
) -> int | None:
    """Reserves a TensorFlow device until `detach`; returns its ordinal.

    A free device of the configuration serves. If there is none, the IPUs are configured anew:
    those that others have keep their places. TensorFlow devices have powers of two of IPUs: of
    one for 3 IPUs the fourth is idle.

    Args:
        owner: the device of PopART.
        ipus: how many IPUs it has.
        number: its number in the listing of the machine; any by default.
        ids: its IPUs, if it has a number.

    Returns:
        The ordinal; None if the machine has too few IPUs left, or they are not free.
    """
    with device_table.LOCK:
        found = device_table.taken_by(owner)
        if found is not None:
            return found
        instances = _joined()
        ipus = ipus_reserved(ipus)
        found = device_table.find(ipus, instances.count, ids)
        if found is None:
            found = device_table.add(ipus, number, instances)
        if found is not None:
            device_table.take(owner, found, is_fixed=False)
        return found


def _joined() -> Instances:
    """Returns the processes that run this program; those that a launcher started join."""
    launched = of_poprun()
    if launched.count > 1 and joining.current().count == 1:
        warn_once(
            "Devices of PopART join the processes that poprun has started. This is deprecated: "
            "call popdist.init() first."
        )
        joining.join(launched)
    return joining.current()


def detach(owner: Any) -> None:
    """Gives a device back.

    Args:
        owner: the device of PopART.
    """
    device_table.give_back(owner)


class _Borrower:
    """Has a device for as long as a program is compiled for it."""


@contextlib.contextmanager
def borrowed(ipus: int, ordinal: int | None) -> Iterator[int]:
    """Gives a device to compile for.

    Args:
        ipus: how many IPUs it has.
        ordinal: of the TensorFlow device, if there is one already.

    Yields:
        The ordinal of a TensorFlow device.

    Raises:
        popart_exception: If the machine has too few IPUs left.
    """
    if ordinal is not None:
        yield ordinal
        return
    borrower = _Borrower()
    found = attach(borrower, ipus)
    if found is None:
        raise popart_exception(
            f"A program for {ipus} IPUs cannot be compiled: not so many are free. Detach a device."
        )
    try:
        yield found
    finally:
        detach(borrower)


def check_replicas(ordinal: int, ipus: int, replicas: int) -> None:
    """Refuses a device that would run a program on another number of replicas.

    Args:
        ordinal: of the TensorFlow device.
        ipus: IPUs of a replica.
        replicas: number of replicas in this process.

    Raises:
        popart_exception: If the device would run another number.
    """
    found = system.current().replication_factor(ordinal, ipus)
    if found != replicas:
        raise popart_exception(
            f"{replicas} replica(s) of {ipus} IPU(s) cannot run: the device would run {found}. Set "
            "replicatedGraphCount to a power of two; the IPU model of TF_POPLAR_FLAGS does not "
            "replicate."
        )


def refuses_what_does_not_fit() -> bool:
    """Returns whether programs that do not fit into memory are errors."""
    return chosen_policy(system.current()) in (out_of_memory.DEFAULT, out_of_memory.RAISE)


def machine_chip() -> Chip:
    """Returns the chip of the machine."""
    return system.current().machine.chip


def generation() -> int:
    """Returns the number of the configuration in force: programs of another one are gone."""
    return system.current().generation


# --- Devices ---

_UNATTACHED = "<unknown-ipu-unattached>"


_WORKERS = 6


# How long devices that are made from now on wait for IPUs.
_wait = {"seconds": 0}


class DeviceInfo:
    """A device: IPUs, a model of them, or a CPU."""

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
        """Version of the driver, unknown before attachment; of a model the version of its IPUs."""
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
        """The number of its IPUs."""
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
        """Figures of its IPUs; its programs are planned for them."""
        if self._type is DeviceType.Cpu:
            return machine_chip()
        is_real = self._type is DeviceType.Ipu
        chip = machine_chip() if is_real else chips.get(_chip_name(self._version))
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
            self._ordinal = attach(self, self._ipus, *place)
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
        detach(self)
        self._ordinal = None


def wait_at_most(seconds: int) -> None:
    """Sets how many seconds new devices wait for IPUs.

    Args:
        seconds: the time.
    """
    _wait["seconds"] = seconds


def machine() -> Machine:
    """Returns the machine that devices are IPUs of."""
    return Machine(machine_chip())


def _chip_name(version: str) -> str:
    """Returns the chip of a version; "ipu:..." leads to a description of another one."""
    return "ipu2" if version.startswith("ipu:") else version


@checked
class DeviceManager:
    """Finds devices."""

    def __repr__(self) -> str:
        return "DeviceManager[]"

    def createCpuDevice(self) -> DeviceInfo:
        """Returns a device that runs programs without IPUs."""
        return _attached(DeviceInfo(DeviceType.Cpu, DeviceConnectionType.Always, 1, 1))

    def createIpuModelDevice(self, arg0: Mapping[str, Any]) -> DeviceInfo:
        """Returns a model of IPUs.

        Args:
            arg0: "numIPUs", "tilesPerIPU", "compileIPUCode" and "ipuVersion", if they are not the
                defaults.

        Raises:
            popart_exception: If an option is unknown.
        """
        known = {"numIPUs": 1, "tilesPerIPU": 4, "compileIPUCode": True, "ipuVersion": "ipu2"}
        given = _options(arg0, known, "createIpuModelDevice")
        return _attached(_made(DeviceType.IpuModel, DeviceConnectionType.Always, given))

    def createSimDevice(self, arg0: Mapping[str, Any]) -> DeviceInfo:
        """Returns a simulator of IPUs; all programs run on this simulator.

        Args:
            arg0: "numIPUs" and "tilesPerIPU", if they are not the defaults.

        Raises:
            popart_exception: If an option is unknown.
        """
        given = _options(arg0, {"numIPUs": 1, "tilesPerIPU": 4}, "createSimDevice")
        return _attached(_made(DeviceType.Sim, DeviceConnectionType.Always, given))

    def createOfflineIPUDevice(self, opts: Mapping[str, Any]) -> DeviceInfo:
        """Returns a device to compile for.

        Args:
            opts: "numIPUs", "tilesPerIPU", "ipuVersion", "syncPattern" and "gatewayMode", if they
                are not the defaults.

        Raises:
            popart_exception: If an option is unknown.
        """
        known = {
            "numIPUs": 1,
            "tilesPerIPU": chips.get("ipu2").tiles,
            "ipuVersion": "ipu2",
            "syncPattern": "full",
            "gatewayMode": "false",
        }
        given = _options(opts, known, "createOfflineIPUDevice")
        return _made(DeviceType.OfflineIpu, DeviceConnectionType.Never, given)

    def createOfflineIpuFromDeviceInfo(self, arg0: DeviceInfo) -> DeviceInfo:
        """Returns a device to compile for that is like another.

        Args:
            arg0: the other.
        """
        never = DeviceConnectionType.Never
        kind = DeviceType.OfflineIpu
        return DeviceInfo(kind, never, arg0.numIpus, arg0.tilesPerIPU, arg0.ipuVersion)

    def createOfflineIpuFromSystemString(self, arg0: str, arg1: int) -> DeviceInfo:
        """Returns a device to compile for.

        Args:
            arg0: the system, such as "ipu2".
            arg1: how many IPUs it has.
        """
        never, tiles = DeviceConnectionType.Never, chips.get("ipu2").tiles
        return DeviceInfo(DeviceType.OfflineIpu, never, arg1, tiles, arg0)

    def tryAcquireAvailableDevice(
        self,
        numIpus: int = 1,
        tilesPerIpu: int = 0,
        pattern: SyncPattern = SyncPattern.Full,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
        selectionCriterion: DeviceSelectionCriterion = DeviceSelectionCriterion.First,
    ) -> DeviceInfo | None:
        """Returns a free device; None if there is none.

        Args:
            numIpus: how many IPUs, a power of two.
            tilesPerIpu: tiles of an IPU; 0 for all.
            pattern: which IPUs synchronize.
            connectionType: when it is attached.
            selectionCriterion: which of the free ones.

        Raises:
            popart_exception: If the number is no power of two, or it would never be attached.
        """
        if numIpus < 1 or numIpus & (numIpus - 1):
            raise popart_exception(
                f"The number of IPUs must be a power of two. Received: {numIpus}"
            )
        if connectionType is DeviceConnectionType.Never:
            raise popart_exception(
                "A device of the connection type Never cannot be acquired: use "
                "createOfflineIPUDevice."
            )
        found = self.enumerateDevices(
            pattern, numIpus, connectionType=connectionType, tilesPerIPU=tilesPerIpu
        )
        if selectionCriterion is DeviceSelectionCriterion.Random:
            random.shuffle(found)
        if connectionType is DeviceConnectionType.OnDemand:
            return next(iter(found), None)
        return next((device for device in found if device.attach()), None)

    def acquireAvailableDevice(
        self,
        numIpus: int = 1,
        tilesPerIpu: int = 0,
        pattern: SyncPattern = SyncPattern.Full,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
        selectionCriterion: DeviceSelectionCriterion = DeviceSelectionCriterion.First,
    ) -> DeviceInfo:
        """Returns a free device; see `tryAcquireAvailableDevice`.

        Args:
            numIpus: how many IPUs, a power of two.
            tilesPerIpu: tiles of an IPU; 0 for all.
            pattern: which IPUs synchronize.
            connectionType: when it is attached.
            selectionCriterion: which of the free ones.

        Raises:
            popart_exception: If there is none.
        """
        found = self.tryAcquireAvailableDevice(
            numIpus, tilesPerIpu, pattern, connectionType, selectionCriterion
        )
        if found is None:
            raise _missing(numIpus)
        return found

    def tryAcquireDeviceById(
        self,
        id: int,  # noqa: A002
        pattern: SyncPattern = SyncPattern.Full,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
    ) -> DeviceInfo | None:
        """Returns a device by its number; None if it is not free.

        Args:
            id: its number.
            pattern: which IPUs synchronize.
            connectionType: when it is attached.
        """
        device = _by_id(id, connectionType)
        if connectionType is DeviceConnectionType.OnDemand:
            return device
        return device if device.attach() else None

    def acquireDeviceById(
        self,
        id: int,  # noqa: A002
        pattern: SyncPattern = SyncPattern.Full,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
    ) -> DeviceInfo:
        """Returns a device by its number; see `tryAcquireDeviceById`.

        Args:
            id: its number.
            pattern: which IPUs synchronize.
            connectionType: when it is attached.

        Raises:
            popart_exception: If it is not free.
        """
        found = self.tryAcquireDeviceById(id, pattern, connectionType)
        if found is None:
            raise popart_exception(f"Failed to acquire device with id '{id}'.")
        return found

    def enumerateDevices(
        self,
        pattern: SyncPattern = SyncPattern.Full,
        numIpus: int = 1,
        deviceType: DeviceType = DeviceType.Ipu,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
        tilesPerIPU: int = 0,
    ) -> list[DeviceInfo]:
        """Returns all devices of a size, free or not.

        Args:
            pattern: which IPUs synchronize.
            numIpus: how many IPUs.
            deviceType: the kind; only IPUs are listed.
            connectionType: when they are attached.
            tilesPerIPU: tiles of an IPU; 0 for all.
        """
        if deviceType is not DeviceType.Ipu:
            return []
        chip = machine_chip()
        return [
            DeviceInfo(
                DeviceType.Ipu, connectionType, numIpus, tilesPerIPU or chip.tiles, "ipu2", number
            )
            for number, size in enumerate(_listed())
            if size == numIpus
        ]

    def setOnDemandAttachTimeout(self, attachTimeout: int) -> None:
        """Sets how many seconds new devices wait for IPUs.

        Args:
            attachTimeout: seconds.
        """
        wait_at_most(attachTimeout)


def _listed() -> list[int]:
    """Returns the number of IPUs of each device of the machine, by number."""
    return [len(entry.ipus) for entry in machine().configurations]


def _by_id(number: int, connection: DeviceConnectionType) -> DeviceInfo:
    sizes = _listed()
    if not 0 <= number < len(sizes):
        raise poplar_exception(f"No such device set id: '{number}'")
    chip = machine_chip()
    return DeviceInfo(DeviceType.Ipu, connection, sizes[number], chip.tiles, "ipu2", number)


def _made(kind: DeviceType, connection: DeviceConnectionType, given: dict[str, Any]) -> DeviceInfo:
    version = str(given.get("ipuVersion", "ipu2"))
    ipus, tiles = int(given["numIPUs"]), int(given["tilesPerIPU"])
    device = DeviceInfo(kind, connection, ipus, tiles, version)
    try:
        device.chip  # noqa: B018 - refuses versions and numbers of tiles that there are not
    except ValueError as error:
        raise popart_exception(f"There is no such device: {error}") from error
    return device


def _attached(device: DeviceInfo) -> DeviceInfo:
    """Attaches a device that nothing can be in the way of but other devices."""
    if not device.attach():
        raise _missing(device.numIpus)
    return device


def _missing(ipus: int) -> popart_exception:
    """Returns the error of a device without enough free IPUs."""
    return popart_exception(
        f"Failed to acquire device with {ipus} IPUs. Ensure that there are sufficient IPUs "
        "available: detach other devices."
    )


def _options(given: Mapping[str, Any], known: dict[str, Any], method: str) -> dict[str, Any]:
    """Returns options with the defaults of those that are not given."""
    for name in given:
        if name not in known:
            raise popart_exception(
                f"Invalid option `{name}' passed to {method}. Options: {', '.join(known)}."
            )
    return {**known, **given}
