"""The IPU chips as data: each figure with its unit, source and certainty."""

from __future__ import annotations

import dataclasses
import difflib
import enum
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

_ARCHITECTURES = {"mk1": "ipu1", "mk2": "ipu2", "bow": "ipu21"}


class Status(enum.Enum):
    """Certainty of a figure."""

    PUBLISHED = "published"  # in documents or code of the vendor, or in a paper
    DERIVED = "derived"  # by arithmetic from published figures
    CALIBRATED = "calibrated"  # fitted to a group of measured rows, which the source names
    UNCERTAIN = "uncertain"  # unofficial, conflicting or assumed from another chip


class Source(NamedTuple):
    """Source of a figure."""

    text: str
    status: Status


class Figure(NamedTuple):
    """One figure of a chip with its unit, source and status."""

    name: str
    value: int | float
    unit: str
    source: Source


def _unit(unit: str) -> Any:
    """Returns a dataclass field that carries its unit."""
    return dataclasses.field(metadata={"unit": unit})


@dataclass(frozen=True, repr=False)
class Chip:
    """One generation of the IPU.

    All sizes are bytes, all rates are per second or per tile clock cycle, as `figures` states.
    `sources` gives the source of each figure by name; every figure must have one.
    """

    name: str
    title: str
    aliases: tuple[str, ...]
    sources: Mapping[str, Source] = dataclasses.field(compare=False)
    tiles: int = _unit("tiles per IPU")
    memory_per_tile: int = _unit("bytes")
    clock: float = _unit("Hz")
    workers_per_tile: int = _unit("threads")
    quarter_macs_per_cycle: int = _unit("multiply-adds per tile and cycle, fp8; 0 without them")
    quarter_input_channels: int = _unit("input channels per pass of the matrix unit, fp8")
    half_macs_per_cycle: int = _unit("multiply-adds per tile and cycle, fp16 accumulated in fp16")
    mixed_macs_per_cycle: int = _unit("multiply-adds per tile and cycle, fp16 accumulated in fp32")
    float_macs_per_cycle: int = _unit("multiply-adds per tile and cycle, fp32")
    half_output_channels: int = _unit("output channels per pass of the matrix unit, fp16 in fp16")
    mixed_output_channels: int = _unit("output channels per pass of the matrix unit, fp16 in fp32")
    float_output_channels: int = _unit("output channels per pass of the matrix unit, fp32")
    half_input_channels: int = _unit("input channels per pass of the matrix unit, fp16")
    float_input_channels: int = _unit("input channels per pass of the matrix unit, fp32")
    short_convolution_channels: int = _unit(
        "input channels at most of which 16 in all kernel positions make a pass, fp16; 0 without"
    )
    half_vector_width: int = _unit("elements per worker instruction, fp16")
    float_vector_width: int = _unit("elements per worker instruction, fp32")
    weight_load_rate: int = _unit("bytes per tile and cycle into the matrix unit")
    load_rate: int = _unit("bytes per tile and cycle from local memory")
    store_rate: int = _unit("bytes per tile and cycle to local memory")
    exchange_rate: int = _unit("bytes received per tile and cycle")
    tiles_per_bus: int = _unit("tiles that can take the same data at once, each half of it")
    exchange_overhead: int = _unit("cycles per exchange phase")
    sync_cycles: int = _unit("cycles per synchronisation of the tiles of one IPU")
    sync_hop_time: float = _unit("s per hop of a synchronisation between IPUs")
    vertex_launch_cycles: int = _unit("cycles to start a vertex on all workers")
    compute_set_cycles: int = _unit("cycles to enter and leave a compute set, besides its vertices")
    elementwise_cycles: int = _unit("cycles of an elementwise vertex besides its estimate")
    link_count: int = _unit("IPU-Links")
    link_bandwidth: float = _unit("bytes/s per IPU-Link and direction")
    link_efficiency: float = _unit("part of the link bandwidth that carries data")
    collective_efficiency: float = _unit("part of the rate of links that collectives reach")
    link_latency: float = _unit("s that a transfer to another IPU takes besides its bytes")
    pair_links: int = _unit("IPU-Links between the two IPUs of a pair")
    ring_links: int = _unit("IPU-Links between an IPU and the next one of its ring")
    link_domain: int = _unit("IPUs that IPU-Links join; beyond are gateways")
    gateway_bandwidth: float = _unit("bytes/s per IPU and direction between groups of 64 IPUs")
    gateway_efficiency: float = _unit("part of the rate of gateways that collectives reach")
    gateway_latency: float = _unit("s that a transfer through gateways takes besides its bytes")
    host_bandwidth: float = _unit("bytes/s per direction between the IPU and its machine")
    network_bandwidth: float = _unit("bytes/s per IPU and direction between machine and host")
    streaming_memory: int = _unit("bytes of streaming memory per IPU")
    streaming_bandwidth: float = _unit("bytes/s per IPU to or from streaming memory")
    transfer_chunk: int = _unit("bytes of the largest single remote buffer transfer")
    reserved_memory_per_tile: int = _unit("bytes per tile used by a nearly empty program")
    mapping_block: int = _unit("bytes of a tensor that are not spread over several tiles")
    stack_per_tile: int = _unit("bytes per tile of stacks of the supervisor and the workers")
    control_code_per_tile: int = _unit("bytes per tile of control code of a nearly empty program")
    vertex_code_per_tile: int = _unit("bytes per tile of vertex code of a nearly empty program")
    host_exchange_code: int = _unit("bytes per tile of code for exchange with the host")
    internal_exchange_code: int = _unit("bytes per tile of exchange code of a nearly empty program")
    packet_headers_per_tile: int = _unit("bytes per tile of headers of packets to the host")
    gap_per_tile: int = _unit("bytes per tile lost to alignment and memory regions")
    control_code_per_op: int = _unit("bytes per tile of control code that an op adds")
    vertex_code_per_codelet: int = _unit("bytes per tile of code of a vertex type")
    power_limit: float = _unit("W per IPU")

    def __post_init__(self) -> None:
        """Checks that the table of sources is complete."""
        names = {f.name for f in dataclasses.fields(self) if "unit" in f.metadata}
        if names != set(self.sources):
            raise ValueError(
                f"Chip '{self.name}' needs one source per figure; these are missing or extra: "
                f"{sorted(names ^ set(self.sources))}."
            )

    def __repr__(self) -> str:
        """Returns a short text: the figures are in `figures`."""
        return f"Chip({self.name!r}, tiles={self.tiles})"

    def __hash__(self) -> int:
        """Returns a cheap hash: a plan looks up thousands of costs by chip."""
        return hash((self.name, self.tiles))

    def figures(self) -> tuple[Figure, ...]:
        """Returns all figures with unit and source, in order of declaration."""
        return tuple(
            Figure(f.name, getattr(self, f.name), f.metadata["unit"], self.sources[f.name])
            for f in dataclasses.fields(self)
            if "unit" in f.metadata
        )

    @property
    def memory(self) -> int:
        """Bytes of memory on the chip."""
        return self.tiles * self.memory_per_tile

    @property
    def worker_threads(self) -> int:
        """Worker threads on the chip."""
        return self.tiles * self.workers_per_tile

    def peak_flops(self, macs_per_cycle: int) -> float:
        """Returns the FLOP/s of all tiles at `macs_per_cycle` each."""
        return 2.0 * macs_per_cycle * self.tiles * self.clock

    @property
    def exchange_bandwidth(self) -> float:
        """Bytes per second that all tiles together can receive."""
        return float(self.exchange_rate * self.tiles) * self.clock

    @property
    def link_bandwidth_total(self) -> float:
        """Bytes per second and direction over all IPU-Links."""
        return self.link_count * self.link_bandwidth

    @property
    def architecture(self) -> str:
        """The name of the chip in Poplar, such as "ipu2"."""
        return _ARCHITECTURES[self.name]

    def with_tiles(self, tiles: int) -> Chip:
        """Returns the same chip with another number of tiles, as the IPU model allows.

        Args:
            tiles: from 1 to the number the chip has.

        Raises:
            ValueError: the chip does not have that many.
        """
        if not 1 <= tiles <= self.tiles:
            raise ValueError(
                f"{self.title} has {self.tiles} tiles, so a model of it has 1 to {self.tiles}; "
                f"received {tiles}."
            )
        return dataclasses.replace(self, tiles=tiles)


_KIB, _MIB, _GB = 1024, 1024**2, 10**9
_P, _D, _U = Status.PUBLISHED, Status.DERIVED, Status.UNCERTAIN

_HC33 = Source("Hot Chips 33 (2021), Graphcore Colossus Mk2", _P)
# Characters of a name that is shown in an error.
_LONGEST_NAME = 40

_GUIDE = Source("Graphcore TensorFlow 1 user guide, memory reports", _P)
_BOW_SHEET = Source("Graphcore Bow-2000 and Bow Pod datasheets", _P)
_TESSELLATE = Source("graphcore-research/tessellate-ipu, notebook 'IPU Peak Flops'", _P)
_POPLIBS = Source("graphcore/poplibs, cost estimators of poplin and poplibs_test", _P)
_COOKBOOK = Source("UoB-HPC/ipu-hpc-cookbook", _P)
_PUPILLI = Source("Pupilli, Graphcore blog on tile-level parallelism (2021)", _P)
_EENEWS = Source("eeNews Europe on Mk2 power figures (2021)", _P)
_DATASHEET_MEMORY = Source("256 GB of DDR4 per Bow-2000 (datasheet) shared by 4 IPUs", _D)
_LINKS = Source("10 IPU-Links, 320 GB/s over both directions (thecharlieblake.co.uk/ipus)", _P)
_LINK_RATE = Source("320 GB/s over both directions of 10 links", _D)
_JIA_PEAK = "peak of Jia et al. (arXiv:1912.03413) / tiles / clock / 2"
_EXCHANGE = Source("published aggregate of 7.8 TB/s (Mk2) and 10.9 TB/s (Bow) / tiles / clock", _D)
# Cycles of one step of a 3x3 blur on GC2 by phase, measured with half4, float2 and float data on 1
# and 16 IPUs. half4 has half the bytes of the other two, so twice the cycles of half4 minus those
# of float2 is what does not depend on bytes.
_STENCIL = "thorbenlouw/lbm-graphcore, exchange-vs-compute.csv, "
_C = Status.CALIBRATED
# 1 IPU: 2 x 637 - 1173 = 101; 16 IPUs: 2 x 263 - 397 = 129. A third-party table for ipu21 has 600,
# but a whole small program takes 284 cycles on Bow.
_STENCIL_EXCHANGE = Source(_STENCIL + "rows of phase 'exchange', 1 and 16 IPUs", _C)
# 64, 117 and 117: a mean of 99. The old default of poplibs' model is 500.
_STENCIL_SYNC = Source(_STENCIL + "rows of phase 'sync' on 1 IPU", _C)
# 501, 642 and 640 with waits for slow tiles: a mean of 594. 15 ns, as in poplibs' tests, gives 340.
_STENCIL_SYNC_16 = Source(_STENCIL + "rows of phase 'sync' on 16 IPUs", _C)
# 2 x 3043 - (4017 + 4048) / 2 = 2053 cycles at 1.6 GHz are 1.28 us.
_STENCIL_LINKS = Source(_STENCIL + "rows of 'globExchange' on 16 IPUs", _C)
# What is left of the time of an update when its mini-batches and the optimizer state that streams
# are taken off: `benchmarks/measured/scaling.py` fits both together to 14 configurations, with a
# factor for the mini-batches of each model and round that is not used elsewhere. Either round alone
# gives about the same; see docs/accuracy.md. SDK 2.1, of MLPerf v1.0, is slower:
# `costs/releases.py`.
_MLPERF_LINKS = Source(
    "14 configurations of MLPerf Training v1.1 on GC200 and v2.0 on Bow, ResNet-50 and BERT-Large",
    _C,
)
_MLPERF_GATEWAYS = Source("6 of these configurations, on 128 and 256 IPUs", _C)
# 40 KB for each of 608 tiles of one IPU over PCIe Gen3 x8; 5.82 GB/s for 304 tiles, and 11.35 GB/s
# for two IPUs. The interface of the card is 2 x PCIe Gen4 x16, which these rows do not reach.
_JIA_STREAM = Source("Jia et al. (arXiv:1912.03413), table 4.20, streams of one IPU", _C)
_GATEWAY = Source("2 x 100 Gbit/s per machine (Bow-2000 datasheet), 1 each way / 4 IPUs", _D)
# The interface of the chip is PCIe Gen4 x16, 32 GB/s each way, but the gateway is in between.
_PLANNED = Source("planning figure through the gateway (graphcore/examples, EfficientDet)", _P)
_NETWORK = Source("one 100 GbE NIC per machine (IPU-POD DA build and test guide) / 4 IPUs", _D)
_STREAMING = Source("20 GB/s per machine of 4 IPUs, recalled from vendor material", _U)
# Measured minus the estimate of `costs.amp.vertex_1x1`, mean over the 82 rows of N = 16, 96, ...
# 2048 of the series [N,16] x [16,16] in fp16: 37.6; smallest 36.3, largest 49.0 (at N = 16).
_COMPUTE_SET = Source(
    "82 rows of tessellate-ipu, notebook 'IPU Peak Flops', on Bow", Status.CALIBRATED
)
# poplibs has 4 for Mk1; with its 8 cycles per position that would be half the peak rate.
_MK1_FLOAT = Source("8 cycles per position x 8 MACs per cycle / 8 input channels", _D)
_FREE_PROGRAM = "stack, control, vertex and exchange code and packet headers of a small program"

# Bytes per tile in the memory report of a program that adds two vectors on Mk1. Other chips have as
# many workers and the same instruction set.
_ADDER = Source("TensorFlow 1 user guide, memory report of an addition on Mk1 / 1216 tiles", _D)

# 10 values: 329.5 measured - 45 of measuring - 203 estimated - 38 of the compute set = 44; 1,024
# values: 1860 - 45 - 1733 - 38 = 44.
_ELEMENTWISE = Source(
    "3 rows of fp32 additions of tessellate-ipu, basics notebook, on Bow", Status.CALIBRATED
)

# Figures that are the same for every chip, most of them defaults of the library's cost models.
_COMMON: dict[str, tuple[int | float, Source]] = {
    "half_input_channels": (16, _POPLIBS),
    "float_input_channels": (8, _POPLIBS),
    "half_vector_width": (4, _PUPILLI),
    "float_vector_width": (2, _PUPILLI),
    "load_rate": (16, Source("128-bit loads (ipu-hpc-cookbook)", _P)),
    "exchange_rate": (4, _EXCHANGE),
    "tiles_per_bus": (2, _POPLIBS),
    "exchange_overhead": (115, _STENCIL_EXCHANGE),
    "sync_cycles": (100, _STENCIL_SYNC),
    "sync_hop_time": (30e-9, _STENCIL_SYNC_16),
    "vertex_launch_cycles": (11, _POPLIBS),
    "compute_set_cycles": (38, _COMPUTE_SET),
    "elementwise_cycles": (44, _ELEMENTWISE),
    "link_count": (10, _LINKS),
    "link_bandwidth": (16e9, _LINK_RATE),
    "link_efficiency": (0.85, _POPLIBS),
    "collective_efficiency": (0.33, _MLPERF_LINKS),
    "link_latency": (1.28e-6, _STENCIL_LINKS),
    "pair_links": (4, Source("ladder of the hardware model in poplibs' tests", _P)),
    "ring_links": (2, Source("ladder of the hardware model in poplibs' tests", _P)),
    "link_domain": (64, Source("a Pod of more than 64 IPUs is Pod64s joined by gateways", _P)),
    "gateway_bandwidth": (3.125e9, _GATEWAY),
    "gateway_efficiency": (0.05, _MLPERF_GATEWAYS),
    "gateway_latency": (5e-6, Source("a few hops of 100 Gbit/s Ethernet; assumed", _U)),
    "streaming_bandwidth": (5e9, _STREAMING),
    "transfer_chunk": (128 * _MIB, _COOKBOOK),
    "mapping_block": (128, Source("least bytes per tile of a linear mapping in poplibs", _P)),
    "stack_per_tile": (3168, _ADDER),
    "control_code_per_tile": (700, _ADDER),
    "vertex_code_per_tile": (140, _ADDER),
    "host_exchange_code": (289, _ADDER),
    "internal_exchange_code": (50, _ADDER),
    "packet_headers_per_tile": (9, _ADDER),
    # Total with gaps minus the sum of the parts, by tiles: (23,878,396 - 5,350,728) / 1216.
    "gap_per_tile": (15236, Source("memory report of a small program, with and without gaps", _D)),
    "control_code_per_op": (64, Source("16 instructions for syncs, calls and exchange", _U)),
    "vertex_code_per_codelet": (512, Source("128 instructions; no public table", _U)),
}

_PER_CHIP: dict[str, dict[str, tuple[int | float, Source]]] = {
    "mk1": {
        "tiles": (1216, _GUIDE),
        "memory_per_tile": (256 * _KIB, _GUIDE),
        "clock": (1.6e9, _GUIDE),
        "workers_per_tile": (6, _COOKBOOK),
        "quarter_macs_per_cycle": (0, Source("cost estimators of poplin: on ipu21 only", _P)),
        "quarter_input_channels": (0, Source("cost estimators of poplin: on ipu21 only", _P)),
        "half_macs_per_cycle": (32, Source("taken to equal the mixed rate", _U)),
        "mixed_macs_per_cycle": (32, Source("124.5 TFLOP/s " + _JIA_PEAK, _D)),
        "float_macs_per_cycle": (8, Source("31.1 TFLOP/s " + _JIA_PEAK, _D)),
        "half_output_channels": (8, _POPLIBS),
        "mixed_output_channels": (8, _POPLIBS),
        "float_output_channels": (8, _MK1_FLOAT),
        "short_convolution_channels": (0, Source("vertices of poplin: from ipu2 on", _P)),
        "weight_load_rate": (16, _POPLIBS),
        "store_rate": (8, Source("assumed as on Mk2", _U)),
        "pair_links": (6, Source("192 GB/s both ways in a C2 card (legacy README) / 2 / link", _D)),
        "host_bandwidth": (5.87e9, _JIA_STREAM),
        "network_bandwidth": (64e9, Source("cards in the host: no network in between", _D)),
        "streaming_memory": (64 * _GB, Source("held in the host's memory; size assumed", _U)),
        "reserved_memory_per_tile": (4356, Source(_FREE_PROGRAM + " (TensorFlow 1 guide)", _D)),
        "power_limit": (150.0, Source("C2 card: 300 W for 2 IPUs (legacy hardware README)", _D)),
    },
    "mk2": {
        "tiles": (1472, _HC33),
        "memory_per_tile": (624 * _KIB, _HC33),
        "clock": (1.325e9, _HC33),
        "workers_per_tile": (6, _HC33),
        "quarter_macs_per_cycle": (0, Source("cost estimators of poplin: on ipu21 only", _P)),
        "quarter_input_channels": (0, Source("cost estimators of poplin: on ipu21 only", _P)),
        "half_macs_per_cycle": (64, Source("250 TFLOP/s (Hot Chips 33) / tiles / clock / 2", _D)),
        "mixed_macs_per_cycle": (32, Source("number of units in poplibs: half of fp16", _D)),
        "float_macs_per_cycle": (16, Source("62.5 TFLOP/s (Hot Chips 33) / tiles / clock / 2", _D)),
        "half_output_channels": (16, _POPLIBS),
        "mixed_output_channels": (8, _POPLIBS),
        "float_output_channels": (16, _POPLIBS),
        "short_convolution_channels": (4, Source("vertices of poplin: from ipu2 on", _P)),
        "weight_load_rate": (16, Source("as poplibs has it for Mk1; not published", _U)),
        "store_rate": (8, Source("47 TB/s (Hot Chips 33) / tiles / clock - 16 B loaded", _D)),
        "host_bandwidth": (5.5e9, _PLANNED),
        "network_bandwidth": (3.125e9, _NETWORK),
        "streaming_memory": (64 * _GB, _DATASHEET_MEMORY),
        "reserved_memory_per_tile": (4356, Source(_FREE_PROGRAM + "; assumed as on Mk1", _U)),
        "power_limit": (300.0, _EENEWS),
    },
    "bow": {
        "tiles": (1472, _BOW_SHEET),
        "memory_per_tile": (624 * _KIB, Source("Graphcore memory report, 624.0 kB", _P)),
        "clock": (1.85e9, _TESSELLATE),
        "workers_per_tile": (6, Source("8832 threads (Bow-2000 datasheet) / tiles", _D)),
        "quarter_macs_per_cycle": (128, Source("32 x 16 channels / 4 cycles (poplibs, ipu21)", _D)),
        "quarter_input_channels": (32, _POPLIBS),
        "half_macs_per_cycle": (64, Source("350 TFLOP/s (Bow datasheet) / tiles / clock / 2", _D)),
        "mixed_macs_per_cycle": (32, Source("number of units in poplibs: half of fp16", _D)),
        "float_macs_per_cycle": (16, Source("22.31 PFLOP/s of 256 IPUs (Bow datasheet)", _D)),
        "half_output_channels": (16, _POPLIBS),
        "mixed_output_channels": (8, _POPLIBS),
        "float_output_channels": (16, _POPLIBS),
        "short_convolution_channels": (4, Source("vertices of poplin: from ipu2 on", _P)),
        "weight_load_rate": (16, Source("assumed as on Mk2", _U)),
        "store_rate": (8, Source("same logic as Mk2", _U)),
        "host_bandwidth": (5.5e9, _PLANNED),
        "network_bandwidth": (3.125e9, _NETWORK),
        "streaming_memory": (64 * _GB, _DATASHEET_MEMORY),
        "reserved_memory_per_tile": (4356, Source(_FREE_PROGRAM + "; assumed as on Mk1", _U)),
        "power_limit": (300.0, Source("assumed as on Mk2", _U)),
    },
}


def _chip(name: str, title: str, *aliases: str) -> Chip:
    """Builds a chip from the two tables above."""
    table = {**_COMMON, **_PER_CHIP[name]}
    values: dict[str, Any] = {key: value for key, (value, _) in table.items()}
    sources = MappingProxyType({key: source for key, (_, source) in table.items()})
    return Chip(name=name, title=title, aliases=aliases, sources=sources, **values)


MK1 = _chip("mk1", "Mk1 (GC2)", "ipu1", "gc2")
MK2 = _chip("mk2", "Mk2 (GC200)", "ipu2", "gc200")
BOW = _chip("bow", "Bow", "ipu21")

#: Every chip that can be named, oldest first.
CHIPS = (MK1, MK2, BOW)

#: The chip of the machine unless the user chooses another.
DEFAULT = MK2

#: Tiles of the chip that has most of them.
MOST_TILES = max(chip.tiles for chip in CHIPS)


def names() -> tuple[str, ...]:
    """Returns all names and aliases that `get` accepts."""
    return tuple(name for chip in CHIPS for name in (chip.name, *chip.aliases))


def get(name: str) -> Chip:
    """Returns the chip called `name`.

    Args:
        name: a name ("mk1", "mk2", "bow"), target version ("ipu1", "ipu2", "ipu21") or part number
            ("gc2", "gc200"), in any case.

    Returns:
        The chip.

    Raises:
        ValueError: no chip has that name.
    """
    wanted = str(name).lower()
    for chip in CHIPS:
        if wanted in (chip.name, *chip.aliases):
            return chip
    close = difflib.get_close_matches(wanted, names(), n=1)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    given = name if len(wanted) <= _LONGEST_NAME else f"{wanted[:_LONGEST_NAME]}..."
    raise ValueError(f"Unknown IPU chip '{given}': choose one of {', '.join(names())}.{hint}")
