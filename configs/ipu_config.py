"""`IPUConfig`: the table of all options of an IPU system."""

from __future__ import annotations

from collections.abc import Callable
from typing import List, Tuple, Union

from tensorflow_ipu.configs import chips
from tensorflow_ipu.configs.attributes import Category, Group, Option, options
from tensorflow_ipu.configs.enums import (
    DeviceConnectionType,
    Effect,
    ExecutionProfileType,
    MergeRemoteBuffersBehaviour,
    SchedulingAlgorithm,
    SelectionOrder,
    StochasticRoundingBehaviour,
)
from tensorflow_ipu.configs.machine import MOST_IPUS
from tensorflow_ipu.configs.ranges import BYTES, COUNT, FOLDER, INT32, MULTIPLE, Range

IntOrInts = Union[int, List[int], Tuple[int, ...]]

_EFFECT, _NO_OP, _MODEL, _IGNORED = Effect.EFFECT, Effect.NO_OP, Effect.MODEL, Effect.IGNORED


#: Begins the description of what the simulator will do, but does not do yet.
_LATER = "Not simulated yet. "

#: Begins the description of what the memory and cycle model has no formula for. It would change
#: nothing but memory and cycles on the chip, so programs that set it lose nothing here.
_UNMODELLED = "Not modelled. "


def _unless_modelled(effect: Effect) -> str:
    """Begins the description of an option that may be modelled or not."""
    return _UNMODELLED if effect is _NO_OP else ""


def _library_options(name: str, what: str, effect: Effect) -> Group:
    """Returns a category whose only own option is the dictionary passed to a library."""
    return Group(name, f"Options for {what}.", (_library_dict(what, effect),))


def _library_dict(what: str, effect: Effect) -> Option:
    """Returns the `poplar_options` dictionary of a category."""
    doc = (
        f"Library options for {what}: names and values are both strings. Assigning replaces the "
        "whole dictionary."
    )
    return Option("poplar_options", dict, {}, effect, _unless_modelled(effect) + doc)


_TOP = (
    Option(
        "auto_select_ipus",
        IntOrInts,
        [],
        _EFFECT,
        "Configure the IPUs to be used by TensorFlow: how many each device has. An int makes one "
        "device, /device:IPU:0; a list or tuple makes one device per entry. Free IPUs of the "
        "machine are chosen. With nothing selected there is one device with one IPU.",
        allowed=Range(1, MOST_IPUS, "IPUs"),
        checked_later=True,
    ),
    Option(
        "select_ipus",
        IntOrInts,
        [],
        _EFFECT,
        "Which configuration of the machine's listing (`machine.Machine.listing`) each "
        "TensorFlow device has, by its id. An int makes one device, a list or tuple one device "
        "per entry. Exclusive with `auto_select_ipus`.",
        allowed=Range(0, INT32),
        checked_later=True,
    ),
    Option(
        "allow_recompute",
        bool,
        False,
        _MODEL,
        "Lets activations be computed again in the backward pass instead of being kept. "
        "Saves memory, costs cycles; results are the same.",
    ),
    Option(
        "selection_order",
        SelectionOrder,
        SelectionOrder.AUTO,
        _EFFECT,
        "The order in which the IPUs of a device are given to shards and pipeline stages. "
        "Decides which IPU a report names and how far copies travel; results are the same.",
    ),
    Option(
        "serialization_output_folder",
        str,
        "",
        _EFFECT,
        "Directory in which every compiled executable is saved. Empty: none is saved.",
        allowed=FOLDER,
    ),
    Option(
        "compilation_poplar_options",
        dict,
        {},
        _EFFECT,
        "Engine options, names and values both strings; `poplar_options.ENGINE` lists their "
        "groups. POPLAR_ENGINE_OPTIONS in the environment overrides them. Those of reports "
        "(`autoReport`, docs/reports.md) and `debug.allowOutOfMemory` (docs/capacity.md) have an "
        "effect; the others are for the device's code, which there is none of.",
    ),
    Option(
        "gcl_poplar_options",
        dict,
        {},
        _NO_OP,
        _UNMODELLED
        + "Options of the collective communication library, names and values both strings.",
    ),
)

_PARTIALS = (
    ", such as availableMemoryProportion. partialsType (half, or float as by default) is the type "
    "of the sums of float16 products, and changes results; the others do not"
)
_CONVOLUTIONS = _library_options("convolutions", f"convolutions{_PARTIALS}", _EFFECT)

_DEVICE_CONNECTION = Group(
    "device_connection",
    "When and how devices get their IPUs.",
    (
        Option(
            "type",
            DeviceConnectionType,
            DeviceConnectionType.ALWAYS,
            _EFFECT,
            "When to attach: see `DeviceConnectionType`.",
        ),
        Option(
            "version",
            str,
            "",
            _EFFECT,
            'The chip to compile for when there is no attached device to ask: "ipu1", "ipu2" or '
            '"ipu21". Needed with the connection types `NEVER` and `PRE_COMPILE`.',
        ),
        Option(
            "enable_remote_buffers",
            bool,
            False,
            _EFFECT,
            "States that the system which will run the programs has remote memory: without it "
            "offloading variables is an error. Only read when the connection type is not "
            "`ALWAYS`; attached simulated IPUs always have it.",
        ),
    ),
)

_EXPERIMENTAL = Group(
    "experimental",
    "Options that may change.",
    (
        Option(
            "always_rearrange_copies_on_the_host",
            bool,
            False,
            _NO_OP,
            _UNMODELLED
            + "Charges changes of layout of streamed data to the host instead of the device.",
        ),
        Option(
            "enable_remote_buffer_embedding",
            bool,
            False,
            _NO_OP,
            _UNMODELLED
            + "Keeps host embeddings in remote buffers. Lookups and updates give the same values.",
        ),
        Option(
            "enable_prng_stability",
            bool,
            False,
            _EFFECT,
            "Lets `scopes.stochastic_rounding` switch stochastic rounding per op, and has what "
            "replicas compute alike rounded alike. Without it that scope has no effect.",
        ),
        Group(
            "multi_replica_distribution",
            "Several processes each running a part of the replicas of one program.",
            (
                Option(
                    "process_index",
                    int,
                    0,
                    _EFFECT,
                    "Which of the processes this is, from 0.",
                    allowed=Range(0, INT32),
                    checked_later=True,
                ),
                Option(
                    "process_count",
                    int,
                    0,
                    _EFFECT,
                    "How many processes there are; 0 means no distribution. The global "
                    "replication "
                    "factor is the local one times this.",
                    allowed=Range(0, INT32),
                    checked_later=True,
                ),
            ),
        ),
    ),
)

_FLOATING_POINT = Group(
    "floating_point_behaviour",
    "Floating-point traps, overflow and rounding on the device: see docs/numerics.md. The IPU "
    "model does not have them.",
    (
        Option(
            "inv",
            bool,
            False,
            _EFFECT,
            "Stop with an error at an invalid operation: one whose result has a NaN.",
        ),
        Option(
            "div0",
            bool,
            False,
            _EFFECT,
            "Stop with an error at a division by zero, or another pole such as log(0).",
        ),
        Option(
            "oflo",
            bool,
            False,
            _EFFECT,
            "Stop with an error at an overflow: a finite result that its type cannot hold.",
        ),
        Option(
            "esr",
            Union[bool, StochasticRoundingBehaviour],
            False,
            _EFFECT,
            "Stochastic rounding of float16 results. Programs for TensorFlow 1 set a bool, "
            "those for TensorFlow 2 a `StochasticRoundingBehaviour`; both are accepted, and False "
            "and True mean `OFF` and `ON`.",
        ),
        Option(
            "nanoo",
            bool,
            False,
            _EFFECT,
            "A float16 overflow gives NaN if True, the largest finite number if False.",
        ),
        Option(
            "set_all",
            bool,
            False,
            _EFFECT,
            "Turns on all five of the above, whatever they say.",
        ),
    ),
)

_IO_TILES = Group(
    "io_tiles",
    "Tiles reserved for transfers that overlap with computing.",
    (
        Option(
            "num_io_tiles",
            int,
            0,
            _MODEL,
            "Tiles per IPU reserved for transfers; an odd number is rounded up.",
            allowed=Range(0, 192, "tiles"),
            checked_later=True,
        ),
        Option(
            "place_ops_on_io_tiles",
            bool,
            False,
            _MODEL,
            "Puts infeed, outfeed and remote buffer ops on the reserved tiles.",
        ),
        Option(
            "available_memory_proportion",
            float,
            0.9,
            _MODEL,
            "Part of the memory of the reserved tiles that may hold data.",
            allowed=MULTIPLE,
        ),
    ),
)

_IPU_MODEL = Group(
    "ipu_model",
    "The IPU model, chosen with TF_POPLAR_FLAGS=--use_ipu_model.",
    (
        Option(
            "compile_ipu_code",
            bool,
            True,
            _NO_OP,
            "Whether device code is compiled for the model. There is no device code here.",
        ),
        Option(
            "tiles_per_ipu",
            int,
            0,
            _MODEL,
            "Tiles per IPU; 0 means all the chip has.",
            allowed=Range(0, chips.MOST_TILES, "tiles"),
        ),
        Option("version", str, "ipu2", _MODEL, 'The chip: "ipu1", "ipu2" or "ipu21".'),
    ),
)

_MATMULS = Group(
    "matmuls",
    "Options for matrix multiplications.",
    (
        Option(
            "clear_pass_type",
            bool,
            False,
            _NO_OP,
            _UNMODELLED
            + "Plans every matrix multiplication as for inference, not by its role in training.",
        ),
        _library_dict(f"matrix multiplications{_PARTIALS}", _EFFECT),
    ),
)

_NORMS = Group(
    "norms",
    "Options for all normalisation ops.",
    (
        Option(
            "use_stable_statistics",
            bool,
            False,
            _NO_OP,
            "Computes the variance from differences to the mean. Here that is always so; the "
            "device's other way, the mean of squares minus the squared mean, is less accurate.",
        ),
        Group(
            "experimental",
            "Normalisation options that may change.",
            (
                Option(
                    "distributed_batch_norm_replica_group_size",
                    int,
                    1,
                    _IGNORED,
                    _LATER + "Over how many consecutive replicas the statistics of a batch norm in "
                    "training are "
                    "taken. Not with I/O tiles.",
                    allowed=COUNT,
                    checked_later=True,
                ),
            ),
        ),
    ),
)


def _buffer_size(name: str, what: str, effect: Effect = _MODEL) -> Option:
    """Returns an option that limits the bytes of like operations merged into one."""
    doc = (
        f"Up to how many bytes of {what} are merged into one operation; 0 merges none. Changes "
        "memory and cycles, and results at most in the order of summation."
    )
    return Option(name, int, 0, effect, _unless_modelled(effect) + doc, allowed=BYTES)


_OPTIMIZATIONS = Group(
    "optimizations",
    "Rewrites made while compiling.",
    (
        Option(
            "prefetch_data_streams",
            bool,
            True,
            _MODEL,
            "Overlaps fetching of infeed data with execution. Running here always prefetches.",
        ),
        Option(
            "combine_embedding_lookups",
            bool,
            False,
            _NO_OP,
            _UNMODELLED + "Merges lookups into the same table. Results are the same.",
        ),
        Option(
            "combine_matmuls",
            bool,
            False,
            _NO_OP,
            _UNMODELLED
            + "Merges matrix multiplications that share an operand. Results are the same.",
        ),
        Option(
            "enable_graph_outlining",
            bool,
            True,
            _MODEL,
            "Shares code between equal parts of a program: less code, more copies.",
        ),
        Option(
            "merge_infeed_io_copies",
            bool,
            False,
            _NO_OP,
            _UNMODELLED
            + "Merges the copies of all tensors of an infeed element into one. The default is "
            "that of "
            "releases for TensorFlow 1; those for TensorFlow 2 have it on.",
        ),
        _buffer_size("maximum_cross_replica_sum_buffer_size", "cross-replica sums"),
        _buffer_size("maximum_reduce_scatter_buffer_size", "reduce-scatters"),
        _buffer_size("maximum_inter_ipu_copies_buffer_size", "copies between IPUs"),
        _buffer_size(
            "maximum_send_recv_cluster_size", "sends to and receives from the host", _NO_OP
        ),
        _buffer_size("maximum_reduce_many_buffer_size", "reductions", _NO_OP),
        _buffer_size("maximum_all_gather_buffer_size", "all-gathers"),
        Option(
            "minimum_remote_tensor_size",
            int,
            128,
            _EFFECT,
            "The least size in bytes at which a variable is put into remote memory, as an "
            "Executable's `variables` show. Never changes results.",
            allowed=BYTES,
        ),
        Option(
            "merge_remote_buffers",
            MergeRemoteBuffersBehaviour,
            MergeRemoteBuffersBehaviour.IF_BENEFICIAL,
            _NO_OP,
            _UNMODELLED + "Whether compatible remote buffers are merged.",
        ),
        Option(
            "enable_gather_simplifier",
            bool,
            True,
            _NO_OP,
            _UNMODELLED + "Turns gathers that are lookups into the cheaper lookup.",
        ),
        Option(
            "triangular_solve_expander_block_size",
            int,
            0,
            _NO_OP,
            _UNMODELLED + "Block size of triangular solves; 0 leaves the choice to the system.",
            allowed=Range(0, INT32),
        ),
        Option(
            "cholesky_block_size",
            int,
            0,
            _NO_OP,
            _UNMODELLED
            + "Block size of Cholesky factorisations; 0 leaves the choice to the system.",
            allowed=Range(0, INT32),
        ),
        Option(
            "enable_fast_math",
            bool,
            False,
            _NO_OP,
            "Allows rewrites that ignore NaN, signed zeros and rounding. The simulator never makes "
            "such rewrites, so results are those of exact IEEE arithmetic either way.",
            "use optimizations.math.fast instead.",
        ),
        Option(
            "enable_dynamic_slice_replacement",
            bool,
            True,
            _NO_OP,
            _UNMODELLED + "Replaces dynamic slices by lookups where that is cheaper.",
        ),
        Group(
            "math",
            "Arithmetic rewrites.",
            (
                Option(
                    "fast",
                    bool,
                    False,
                    _NO_OP,
                    "Allows rewrites that ignore NaN, signed zeros and rounding. The simulator "
                    "never "
                    "makes such rewrites.",
                ),
                Option(
                    "dot_strength",
                    bool,
                    True,
                    _NO_OP,
                    "Replaces small matrix products by multiplications and sums. Not done here.",
                ),
            ),
        ),
    ),
)

_SCHEDULING = Group(
    "scheduling",
    "How the ops of a program are put in order.",
    (
        Option(
            "algorithm",
            SchedulingAlgorithm,
            SchedulingAlgorithm.CHOOSE_BEST,
            _MODEL,
            "The algorithm. Changes the order in reports and the live memory, not results.",
        ),
        Option(
            "maximum_scheduler_lookahead_depth",
            int,
            5,
            _NO_OP,
            _UNMODELLED + "How far `LOOK_AHEAD` looks past a decision, in ops.",
            allowed=Range(0, INT32, "ops"),
        ),
        Option(
            "maximum_scheduler_search_space_size",
            int,
            64,
            _NO_OP,
            _UNMODELLED + "How many schedules `LOOK_AHEAD` compares at a decision at most.",
            allowed=Range(0, INT32),
        ),
    ),
)

_PROFILING = Group(
    "_profiling",
    "Private: what the legacy profiling options set.",
    (
        Option("profiling", bool, False, _EFFECT, "Record trace events with reports."),
        Option("enable_ipu_events", bool, False, _EFFECT, "Record trace events without reports."),
        Option(
            "use_poplar_text_report",
            bool,
            False,
            _EFFECT,
            "Reports in files are text only (summary.txt), not JSON and HTML too.",
        ),
        Option(
            "use_poplar_cbor_report",
            bool,
            False,
            _IGNORED,
            "Reports as CBOR. There is no CBOR writer here; they stay JSON.",
        ),
        Option(
            "profile_execution",
            ExecutionProfileType,
            ExecutionProfileType.NO_PROFILE,
            _EFFECT,
            "Whether reports in files have the timeline of a launch, trace.json. Any kind of "
            "profile gives the same one, by IPU. Needs `profiling`.",
        ),
        Option(
            "enable_poplar_serialized_graph",
            bool,
            False,
            _IGNORED,
            "Add the library's serialised graph to compile events. There is none here.",
        ),
        Option(
            "report_every_nth_execution",
            int,
            0,
            _NO_OP,
            "Report each Nth execution; 0 reports the first only. All executions of a program are "
            "modelled alike, so its one report stands for all of them.",
            allowed=Range(0, INT32),
        ),
        Option(
            "max_report_size",
            int,
            0x10000000,
            _EFFECT,
            "Largest file of a report that is written, and largest tensor map in an event, in "
            "bytes.",
            allowed=BYTES,
        ),
        Option(
            "report_directory",
            str,
            "",
            _EFFECT,
            "Write a report of each program in a directory of its own here: see docs/reports.md. "
            "The engine option autoReport.directory wins over it.",
            allowed=FOLDER,
        ),
        Option("graph_poplar_options", dict, {}, _IGNORED, "Options of the graph report."),
        Option("execution_poplar_options", dict, {}, _IGNORED, "Options of the execution report."),
        Option(
            "auto_assign_report_subdirectories",
            bool,
            False,
            _NO_OP,
            "A directory of its own for each program's reports. Each always has one.",
        ),
    ),
)

TREE = Group(
    "",
    "The options of an IPU system.",
    (
        *_TOP,
        _CONVOLUTIONS,
        _DEVICE_CONNECTION,
        _EXPERIMENTAL,
        _FLOATING_POINT,
        _IO_TILES,
        _IPU_MODEL,
        _MATMULS,
        _NORMS,
        _OPTIMIZATIONS,
        _library_options("pooling", "pooling", _NO_OP),
        _SCHEDULING,
        _library_options("slices", "slices and embedding lookups", _MODEL),
        _PROFILING,
    ),
)

#: Every option by dotted name.
OPTIONS = options(TREE)


class IPUConfig(Category):
    """The options of an IPU system: a tree of attributes with checked types.

    Nothing happens until `configure_ipu_system` is called. For example::

        config = IPUConfig()
        config.auto_select_ipus = 2
        config.floating_point_behaviour.nanoo = True
        config.configure_ipu_system()

    Configurations can be copied with `copy.deepcopy`, and saved with `to_dict` or `to_json`.
    """

    def __init__(self) -> None:
        """Makes a configuration in which every option has its default."""
        super().__init__(TREE, TREE)

    def configure_ipu_system(self, device: str = "cpu") -> None:
        """Configures the IPU system with these options.

        Args:
            device: the CPU device that is local to the IPUs.

        Raises:
            Exception: as for `config.configure_ipu_system`.
        """
        if not _attaching:
            raise RuntimeError(
                "No module that attaches IPUs is loaded. Take IPUConfig from "
                "`tensorflow.python.ipu.config`, not from where it is defined."
            )
        _attaching[0](self, device)


# The function that attaches what a configuration asks for. It is in `tensorflow_ipu.runtime`, which
# uses this package, so it is not imported here: it registers itself.
_attaching: list[Callable[[IPUConfig, str], None]] = []


def attach_with(attach: Callable[[IPUConfig, str], None]) -> None:
    """Sets the function that `IPUConfig.configure_ipu_system` calls.

    Args:
        attach: attaches devices as a configuration says; its arguments are the configuration and
            the name of the CPU device.
    """
    _attaching[:] = [attach]
