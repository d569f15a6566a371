"""`Release`: the properties of costs that belong to a release of the SDK, not to a chip."""

from __future__ import annotations

import dataclasses

from tensorflow_ipu.configs.chips import Chip


@dataclasses.dataclass(frozen=True)
class Release:
    """A release of the SDK, as far as its library differs in speed.

    Attributes:
        name: Name of the release.
        slowdown: Cycles of a product or convolution relative to the figures of the library's own
            estimators.
        launch_cycles: Cycles of a product or convolution besides these.
        sum_cycles: Cycles of a tile for each element that a reduction adds up, besides its
            estimate.
        sum_phase_cycles: Cycles of each phase of a reduction over tiles, besides its estimate.
        fills_unit: Whether kernel rows share the input channels of the matrix unit, groups are
            combined, and sums of a single pass are float16, so that few channels fill the unit.
        smallest_piece: Bytes of the smallest piece that moves in whole words; smaller ones move by
            4 bytes.
        collective_slowdown: Time of the bytes of collectives on IPU-Links relative to the figure of
            the chip.
    """

    name: str
    slowdown: float = 1.0
    launch_cycles: int = 0
    sum_cycles: float = 0.0
    sum_phase_cycles: int = 0
    fills_unit: bool = True
    smallest_piece: int = 0
    collective_slowdown: float = 1.0

    def __hash__(self) -> int:
        """Returns the hash of the name alone: costs are cached by release."""
        return hash(self.name)

    def with_links(self, chip: Chip) -> Chip:
        """Returns the chip with the links' rate that collectives of this release reach.

        Args:
            chip: the chip, with the figure of the current release.
        """
        if self.collective_slowdown == 1:
            return chip
        efficiency = chip.collective_efficiency / self.collective_slowdown
        return dataclasses.replace(chip, collective_efficiency=efficiency)


#: The releases that the estimators were published with, 2.0 to 3.3. The slowdown is fitted to 303
#: dense products and 54 attention scores that Peng et al. (ICPE 2024) measured on Mk2 with 2.4.
CURRENT = Release("current", slowdown=1.04)

#: The release of submissions to MLPerf Training v1.0. Their system descriptions say 2.1.0, those of
#: v1.1 say 2.3.0, of v2.0 2.5.1. On 64 IPUs BERT-Large takes 14 % longer with it than with 2.3,
#: its program unchanged. The slowdown is fitted to four configurations, the figure of the chip to
#: 14 of v1.1 and v2.0. Products are taken as those of the current release.
SDK_2_1 = dataclasses.replace(CURRENT, name="SDK 2.1", collective_slowdown=2.1)

#: The release that Jia et al. measured (arXiv:1912.03413). The slowdown and the launch are fitted
#: to their 22 products with the library's mapping, the figures of sums to their reductions on one
#: tile and on all, the rest to their grouped convolutions and first layers.
SDK_1_0 = Release(
    "SDK 1.0",
    slowdown=1.24,
    launch_cycles=750,
    sum_cycles=0.75,
    sum_phase_cycles=1000,
    fills_unit=False,
    smallest_piece=16,
)
