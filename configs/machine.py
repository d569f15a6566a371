"""The simulated machine: 16 IPUs, its 31 device configurations and their order in shards."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tensorflow_ipu.configs import chips
from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.configs.enums import SelectionOrder
from tensorflow_ipu.util.short_repr import shows

# PCI bus numbers of the IPUs by id: a machine with eight C2 cards of two IPUs each.
_PCI_BUSES = (
    "1a",
    "1b",
    "23",
    "24",
    "3d",
    "3e",
    "43",
    "44",
    "8b",
    "8c",
    "8e",
    "8f",
    "b8",
    "b9",
    "ba",
    "bb",
)

# The IPUs in ladder order: every multi-IPU configuration is an aligned run of 2, 4, 8 or 16 of it.
_LADDER = (5, 7, 4, 6, 3, 1, 2, 0, 13, 15, 12, 14, 9, 11, 10, 8)

#: The most IPUs of a device that is not of the machine: of the model, or only compiled for. No
#: system was built with more.
MOST_IPUS = 4096


@dataclass(frozen=True)
class MachineConfiguration:
    """One entry of the device listing: an id and the IPUs in it, in ladder (DNC id) order."""

    id: int
    ipus: tuple[int, ...]


def _configurations() -> tuple[MachineConfiguration, ...]:
    """Returns the single IPUs, then all runs of 2, 4, 8 and 16 IPUs along the ladder, numbered."""
    groups: list[tuple[int, ...]] = [(ipu,) for ipu in range(len(_LADDER))]
    size = 2
    while size <= len(_LADDER):
        groups += [_LADDER[i : i + size] for i in range(0, len(_LADDER), size)]
        size *= 2
    return tuple(MachineConfiguration(i, ipus) for i, ipus in enumerate(groups))


@dataclass(frozen=True)
class Machine:
    """The IPUs that devices can be attached to.

    Args:
        chip: the chip of every IPU.
        is_model: True for the IPU model, which has as many IPUs as are asked for and no listing.
    """

    chip: Chip = chips.DEFAULT
    is_model: bool = False

    __repr__ = shows(
        lambda self: {"": self.chip, "ipus": self.num_ipus or None, "is_model": self.is_model}
    )

    @property
    def configurations(self) -> tuple[MachineConfiguration, ...]:
        """The configurations that can be attached, by id; empty for the model."""
        return () if self.is_model else _CONFIGURATIONS

    @property
    def num_ipus(self) -> int:
        """IPUs of the machine; 0 for the model, which has no fixed number."""
        return 0 if self.is_model else len(_LADDER)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of IPUs that a device can have, ascending; empty for the model."""
        return tuple(sorted({len(entry.ipus) for entry in self.configurations}))

    @property
    def offer(self) -> str:
        """The numbers of IPUs that devices can have, as a sentence for errors."""
        if self.is_model:
            return "The IPU model has devices with any number of IPUs."
        return f"The machine of {self.num_ipus} IPUs has devices with {_either(self.sizes)} IPUs."

    def advice(self, ipus: int) -> str:
        """Returns a sentence for errors: the IPUs to select for a program.

        Args:
            ipus: IPUs that a replica of it takes, a power of two.

        Returns:
            The numbers of IPUs that can be selected; or that there are not so many.
        """
        if self.is_model:
            return f"Set IPUConfig.auto_select_ipus to a multiple of {ipus}."
        sizes = [size for size in self.sizes if size % ipus == 0]
        if not sizes:
            return (
                f"The machine has {self.num_ipus} IPUs and no device with more: use the IPUs 0 to "
                f"{self.num_ipus - 1} only."
            )
        return (
            f"Set IPUConfig.auto_select_ipus to {_either(sizes)}: the machine has {self.num_ipus} "
            "IPUs."
        )

    def pci_address(self, ipu: int) -> str:
        """Returns the PCI address of an IPU, such as `0000:1a:00.0`.

        Args:
            ipu: id from 0 to 15.
        """
        return f"0000:{_PCI_BUSES[ipu]}:00.0"

    def by_id(self, index: int) -> MachineConfiguration | None:
        """Returns the configuration with id `index`, or None."""
        in_range = 0 <= index < len(self.configurations)
        return self.configurations[index] if in_range else None

    def by_count(self, count: int, busy: Collection[int] = ()) -> MachineConfiguration | None:
        """Returns the first configuration with `count` IPUs none of which is in `busy`, or None."""
        for entry in self.configurations:
            if len(entry.ipus) == count and not set(entry.ipus) & set(busy):
                return entry
        return None

    def listing(self) -> str:
        """Returns all configurations as the hardware listing tool prints them."""
        lines = ["Graphcore device listing:", ""]
        for entry in self.configurations:
            identifier = f"{f'[{entry.id}]':>4}"
            if len(entry.ipus) == 1:
                address = self.pci_address(entry.ipus[0])
                lines.append(f"-+- Id: {identifier}, type:      [PCIe], PCI Domain: [{address}]")
                continue
            lines.append(f"-+- Id: {identifier}, type: [Multi IPU]")
            for dnc, ipu in enumerate(entry.ipus):
                member, address = f"{f'[{ipu}]':>4}", self.pci_address(ipu)
                lines.append(f"|--- PCIe Id: {member}, DNC Id: [{dnc}], PCI Domain: [{address}]")
        return "\n".join(lines)


_CONFIGURATIONS = _configurations()


def _either(numbers: Sequence[int]) -> str:
    """Returns numbers as an enumeration: `1, 2 or 4`."""
    *first, last = map(str, numbers)
    return f"{', '.join(first)} or {last}" if first else last


def selection_permutation(order: SelectionOrder, count: int) -> tuple[int, ...]:
    """Returns which IPU of a ladder of `count` each shard gets.

    IPUs 2k and 2k + 1 form rung k of the ladder. `AUTO` gives the natural order here; since
    results do not depend on the order, a compiler that knows the program may choose another.

    Args:
        order: the order asked for.
        count: number of IPUs, at least 1.

    Returns:
        Position in the ladder for shard 0, 1, ..., `count` - 1.
    """
    natural = tuple(range(count))
    if order is SelectionOrder.SNAKE:
        # Odd rungs are walked right to left; a last half rung has only its left IPU.
        swapped = (i ^ 1 if (i // 2) % 2 else i for i in natural)
        return tuple(i if i < count else count - 1 for i in swapped)
    if order is SelectionOrder.HOOF:
        return natural[0::2] + natural[1::2][::-1]
    return natural
