# Made by stubs/make_stubs.py.

from collections.abc import Iterator, Mapping
from typing import Any

from tensorflow_ipu.configs.attributes import AttributeMetadata
from tensorflow_ipu.configs.attributes import Group, Option
from tensorflow_ipu.configs.enums import DeviceConnectionType
from tensorflow_ipu.configs.enums import ExecutionProfileType
from tensorflow_ipu.configs.enums import MergeRemoteBuffersBehaviour
from tensorflow_ipu.configs.enums import SchedulingAlgorithm
from tensorflow_ipu.configs.enums import SelectionOrder
from tensorflow_ipu.configs.enums import StochasticRoundingBehaviour

IntOrInts = int | list[int] | tuple[int, ...]
TREE: Group
OPTIONS: dict[str, Option]

class _Category:
    """One node of a configuration: attributes by name, assignment checked against the tree."""

    def items(self) -> Iterator[tuple[str, Any]]:
        """Yields all options below this node as (name from the root, value), in order."""

    def get_attribute_metadata(self, attr: str) -> AttributeMetadata:
        """Describes an attribute or category.

        Args:
            attr: dotted name relative to this node.

        Returns:
            Its `AttributeMetadata`.

        Raises:
            ValueError: there is no such attribute.
        """

    def to_dict(self) -> dict[str, Any]:
        """Returns the values as nested dictionaries, enumeration members as their numbers."""

    def from_dict(self, dct: Mapping[str, Any]) -> None:
        """Sets the values found in nested dictionaries such as `to_dict` returns.

        Attributes missing from `dct` keep their value, with a warning. On an error nothing changes.

        Args:
            dct: values by name; enumeration members as members or numbers.

        Raises:
            TypeError: a value is of the wrong type.
            ValueError: a name is not an attribute, a value outside its range, or a number not a
                member of the enumeration.
        """

    def to_json(self) -> str:
        """Returns the values as a JSON object; see `to_dict`."""

    def from_json(self, json_cfg: str) -> None:
        """Sets the values found in a JSON object; see `from_dict`.

        Args:
            json_cfg: text such as `to_json` returns.

        Raises:
            ValueError: the text is not JSON, or as for `from_dict`.
            TypeError: as for `from_dict`.
        """

class _Convolutions(_Category):
    """Options for convolutions, such as availableMemoryProportion. partialsType (half, or float as
    by default) is the type of the sums of float16 products, and changes results; the others do
    not.
    """

    poplar_options: dict[str, str]
    """Library options for convolutions, such as availableMemoryProportion. partialsType (half, or
    float as by default) is the type of the sums of float16 products, and changes results; the
    others do not: names and values are both strings. Assigning replaces the whole dictionary.

    Default: {}.
    """

class _DeviceConnection(_Category):
    """When and how devices get their IPUs."""

    type: DeviceConnectionType
    """When to attach: see `DeviceConnectionType`.

    Default: <DeviceConnectionType.ALWAYS: 0>.
    """

    version: str
    """The chip to compile for when there is no attached device to ask: "ipu1", "ipu2" or "ipu21".
    Needed with the connection types `NEVER` and `PRE_COMPILE`.

    Default: ''.
    """

    enable_remote_buffers: bool
    """States that the system which will run the programs has remote memory: without it offloading
    variables is an error. Only read when the connection type is not `ALWAYS`; attached
    simulated IPUs always have it.

    Default: False.
    """

class _ExperimentalMultiReplicaDistribution(_Category):
    """Several processes each running a part of the replicas of one program."""

    process_index: int
    """Which of the processes this is, from 0.

    Default: 0.
    """

    process_count: int
    """How many processes there are; 0 means no distribution. The global replication factor is the
    local one times this.

    Default: 0.
    """

class _Experimental(_Category):
    """Options that may change."""

    always_rearrange_copies_on_the_host: bool
    """Not modelled. Charges changes of layout of streamed data to the host instead of the device.

    Default: False.
    """

    enable_remote_buffer_embedding: bool
    """Not modelled. Keeps host embeddings in remote buffers. Lookups and updates give the same
    values.

    Default: False.
    """

    enable_prng_stability: bool
    """Lets `scopes.stochastic_rounding` switch stochastic rounding per op, and has what replicas
    compute alike rounded alike. Without it that scope has no effect.

    Default: False.
    """

    @property
    def multi_replica_distribution(self) -> _ExperimentalMultiReplicaDistribution:
        """Several processes each running a part of the replicas of one program."""

class _FloatingPointBehaviour(_Category):
    """Floating-point traps, overflow and rounding on the device: see docs/numerics.md. The IPU
    model does not have them.
    """

    inv: bool
    """Stop with an error at an invalid operation: one whose result has a NaN.

    Default: False.
    """

    div0: bool
    """Stop with an error at a division by zero, or another pole such as log(0).

    Default: False.
    """

    oflo: bool
    """Stop with an error at an overflow: a finite result that its type cannot hold.

    Default: False.
    """

    esr: bool | StochasticRoundingBehaviour
    """Stochastic rounding of float16 results. Programs for TensorFlow 1 set a bool, those for
    TensorFlow 2 a `StochasticRoundingBehaviour`; both are accepted, and False and True mean
    `OFF` and `ON`.

    Default: False.
    """

    nanoo: bool
    """A float16 overflow gives NaN if True, the largest finite number if False.

    Default: False.
    """

    set_all: bool
    """Turns on all five of the above, whatever they say.

    Default: False.
    """

class _IoTiles(_Category):
    """Tiles reserved for transfers that overlap with computing."""

    num_io_tiles: int
    """Tiles per IPU reserved for transfers; an odd number is rounded up.

    Default: 0.
    """

    place_ops_on_io_tiles: bool
    """Puts infeed, outfeed and remote buffer ops on the reserved tiles.

    Default: False.
    """

    available_memory_proportion: float
    """Part of the memory of the reserved tiles that may hold data.

    Default: 0.9.
    """

class _IpuModel(_Category):
    """The IPU model, chosen with TF_POPLAR_FLAGS=--use_ipu_model."""

    compile_ipu_code: bool
    """Whether device code is compiled for the model. There is no device code here.

    Default: True.
    """

    tiles_per_ipu: int
    """Tiles per IPU; 0 means all the chip has.

    Default: 0.
    """

    version: str
    """The chip: "ipu1", "ipu2" or "ipu21".

    Default: 'ipu2'.
    """

class _Matmuls(_Category):
    """Options for matrix multiplications."""

    clear_pass_type: bool
    """Not modelled. Plans every matrix multiplication as for inference, not by its role in
    training.

    Default: False.
    """

    poplar_options: dict[str, str]
    """Library options for matrix multiplications, such as availableMemoryProportion. partialsType
    (half, or float as by default) is the type of the sums of float16 products, and changes
    results; the others do not: names and values are both strings. Assigning replaces the whole
    dictionary.

    Default: {}.
    """

class _NormsExperimental(_Category):
    """Normalisation options that may change."""

    distributed_batch_norm_replica_group_size: int
    """Not simulated yet. Over how many consecutive replicas the statistics of a batch norm in
    training are taken. Not with I/O tiles.

    Default: 1.
    """

class _Norms(_Category):
    """Options for all normalisation ops."""

    use_stable_statistics: bool
    """Computes the variance from differences to the mean. Here that is always so; the device's
    other way, the mean of squares minus the squared mean, is less accurate.

    Default: False.
    """

    @property
    def experimental(self) -> _NormsExperimental:
        """Normalisation options that may change."""

class _OptimizationsMath(_Category):
    """Arithmetic rewrites."""

    fast: bool
    """Allows rewrites that ignore NaN, signed zeros and rounding. The simulator never makes such
    rewrites.

    Default: False.
    """

    dot_strength: bool
    """Replaces small matrix products by multiplications and sums. Not done here.

    Default: True.
    """

class _Optimizations(_Category):
    """Rewrites made while compiling."""

    prefetch_data_streams: bool
    """Overlaps fetching of infeed data with execution. Running here always prefetches.

    Default: True.
    """

    combine_embedding_lookups: bool
    """Not modelled. Merges lookups into the same table. Results are the same.

    Default: False.
    """

    combine_matmuls: bool
    """Not modelled. Merges matrix multiplications that share an operand. Results are the same.

    Default: False.
    """

    enable_graph_outlining: bool
    """Shares code between equal parts of a program: less code, more copies.

    Default: True.
    """

    merge_infeed_io_copies: bool
    """Not modelled. Merges the copies of all tensors of an infeed element into one. The default is
    that of releases for TensorFlow 1; those for TensorFlow 2 have it on.

    Default: False.
    """

    maximum_cross_replica_sum_buffer_size: int
    """Up to how many bytes of cross-replica sums are merged into one operation; 0 merges none.
    Changes memory and cycles, and results at most in the order of summation.

    Default: 0.
    """

    maximum_reduce_scatter_buffer_size: int
    """Up to how many bytes of reduce-scatters are merged into one operation; 0 merges none.
    Changes memory and cycles, and results at most in the order of summation.

    Default: 0.
    """

    maximum_inter_ipu_copies_buffer_size: int
    """Up to how many bytes of copies between IPUs are merged into one operation; 0 merges none.
    Changes memory and cycles, and results at most in the order of summation.

    Default: 0.
    """

    maximum_send_recv_cluster_size: int
    """Not modelled. Up to how many bytes of sends to and receives from the host are merged into
    one operation; 0 merges none. Changes memory and cycles, and results at most in the order of
    summation.

    Default: 0.
    """

    maximum_reduce_many_buffer_size: int
    """Not modelled. Up to how many bytes of reductions are merged into one operation; 0 merges
    none. Changes memory and cycles, and results at most in the order of summation.

    Default: 0.
    """

    maximum_all_gather_buffer_size: int
    """Up to how many bytes of all-gathers are merged into one operation; 0 merges none. Changes
    memory and cycles, and results at most in the order of summation.

    Default: 0.
    """

    minimum_remote_tensor_size: int
    """The least size in bytes at which a variable is put into remote memory, as an Executable's
    `variables` show. Never changes results.

    Default: 128.
    """

    merge_remote_buffers: MergeRemoteBuffersBehaviour
    """Not modelled. Whether compatible remote buffers are merged.

    Default: <MergeRemoteBuffersBehaviour.IF_BENEFICIAL: 2>.
    """

    enable_gather_simplifier: bool
    """Not modelled. Turns gathers that are lookups into the cheaper lookup.

    Default: True.
    """

    triangular_solve_expander_block_size: int
    """Not modelled. Block size of triangular solves; 0 leaves the choice to the system.

    Default: 0.
    """

    cholesky_block_size: int
    """Not modelled. Block size of Cholesky factorisations; 0 leaves the choice to the system.

    Default: 0.
    """

    enable_fast_math: bool
    """Allows rewrites that ignore NaN, signed zeros and rounding. The simulator never makes such
    rewrites, so results are those of exact IEEE arithmetic either way. Deprecated: use
    optimizations.math.fast instead.

    Default: False.
    """

    enable_dynamic_slice_replacement: bool
    """Not modelled. Replaces dynamic slices by lookups where that is cheaper.

    Default: True.
    """

    @property
    def math(self) -> _OptimizationsMath:
        """Arithmetic rewrites."""

class _Pooling(_Category):
    """Options for pooling."""

    poplar_options: dict[str, str]
    """Not modelled. Library options for pooling: names and values are both strings. Assigning
    replaces the whole dictionary.

    Default: {}.
    """

class _Scheduling(_Category):
    """How the ops of a program are put in order."""

    algorithm: SchedulingAlgorithm
    """The algorithm. Changes the order in reports and the live memory, not results.

    Default: <SchedulingAlgorithm.CHOOSE_BEST: 0>.
    """

    maximum_scheduler_lookahead_depth: int
    """Not modelled. How far `LOOK_AHEAD` looks past a decision, in ops.

    Default: 5.
    """

    maximum_scheduler_search_space_size: int
    """Not modelled. How many schedules `LOOK_AHEAD` compares at a decision at most.

    Default: 64.
    """

class _Slices(_Category):
    """Options for slices and embedding lookups."""

    poplar_options: dict[str, str]
    """Library options for slices and embedding lookups: names and values are both strings.
    Assigning replaces the whole dictionary.

    Default: {}.
    """

class _Profiling(_Category):
    """Private: what the legacy profiling options set."""

    profiling: bool
    """Record trace events with reports.

    Default: False.
    """

    enable_ipu_events: bool
    """Record trace events without reports.

    Default: False.
    """

    use_poplar_text_report: bool
    """Reports in files are text only (summary.txt), not JSON and HTML too.

    Default: False.
    """

    use_poplar_cbor_report: bool
    """Reports as CBOR. There is no CBOR writer here; they stay JSON.

    Default: False.
    """

    profile_execution: ExecutionProfileType
    """Whether reports in files have the timeline of a launch, trace.json. Any kind of profile
    gives the same one, by IPU. Needs `profiling`.

    Default: <ExecutionProfileType.NO_PROFILE: 0>.
    """

    enable_poplar_serialized_graph: bool
    """Add the library's serialised graph to compile events. There is none here.

    Default: False.
    """

    report_every_nth_execution: int
    """Report each Nth execution; 0 reports the first only. All executions of a program are
    modelled alike, so its one report stands for all of them.

    Default: 0.
    """

    max_report_size: int
    """Largest file of a report that is written, and largest tensor map in an event, in bytes.

    Default: 268435456.
    """

    report_directory: str
    """Write a report of each program in a directory of its own here: see docs/reports.md. The
    engine option autoReport.directory wins over it.

    Default: ''.
    """

    graph_poplar_options: dict[str, str]
    """Options of the graph report.

    Default: {}.
    """

    execution_poplar_options: dict[str, str]
    """Options of the execution report.

    Default: {}.
    """

    auto_assign_report_subdirectories: bool
    """A directory of its own for each program's reports. Each always has one.

    Default: False.
    """

class IPUConfig(_Category):
    """The options of an IPU system: a tree of attributes with checked types.

    Nothing happens until `configure_ipu_system` is called. For example::

        config = IPUConfig()
        config.auto_select_ipus = 2
        config.floating_point_behaviour.nanoo = True
        config.configure_ipu_system()

    Configurations can be copied with `copy.deepcopy`, and saved with `to_dict` or `to_json`.
    """

    auto_select_ipus: int | list[int] | tuple[int, ...]
    """Configure the IPUs to be used by TensorFlow: how many each device has. An int makes one
    device, /device:IPU:0; a list or tuple makes one device per entry. Free IPUs of the machine
    are chosen. With nothing selected there is one device with one IPU.

    Default: [].
    """

    select_ipus: int | list[int] | tuple[int, ...]
    """Which configuration of the machine's listing (`machine.Machine.listing`) each TensorFlow
    device has, by its id. An int makes one device, a list or tuple one device per entry.
    Exclusive with `auto_select_ipus`.

    Default: [].
    """

    allow_recompute: bool
    """Lets activations be computed again in the backward pass instead of being kept. Saves memory,
    costs cycles; results are the same.

    Default: False.
    """

    selection_order: SelectionOrder
    """The order in which the IPUs of a device are given to shards and pipeline stages. Decides
    which IPU a report names and how far copies travel; results are the same.

    Default: <SelectionOrder.AUTO: 0>.
    """

    serialization_output_folder: str
    """Directory in which every compiled executable is saved. Empty: none is saved.

    Default: ''.
    """

    compilation_poplar_options: dict[str, str]
    """Engine options, names and values both strings; `poplar_options.ENGINE` lists their groups.
    POPLAR_ENGINE_OPTIONS in the environment overrides them. Those of reports (`autoReport`,
    docs/reports.md) and `debug.allowOutOfMemory` (docs/capacity.md) have an effect; the others
    are for the device's code, which there is none of.

    Default: {}.
    """

    gcl_poplar_options: dict[str, str]
    """Not modelled. Options of the collective communication library, names and values both
    strings.

    Default: {}.
    """

    @property
    def convolutions(self) -> _Convolutions:
        """Options for convolutions, such as availableMemoryProportion. partialsType (half, or
        float as by default) is the type of the sums of float16 products, and changes results;
        the others do not.
        """

    @property
    def device_connection(self) -> _DeviceConnection:
        """When and how devices get their IPUs."""

    @property
    def experimental(self) -> _Experimental:
        """Options that may change."""

    @property
    def floating_point_behaviour(self) -> _FloatingPointBehaviour:
        """Floating-point traps, overflow and rounding on the device: see docs/numerics.md. The IPU
        model does not have them.
        """

    @property
    def io_tiles(self) -> _IoTiles:
        """Tiles reserved for transfers that overlap with computing."""

    @property
    def ipu_model(self) -> _IpuModel:
        """The IPU model, chosen with TF_POPLAR_FLAGS=--use_ipu_model."""

    @property
    def matmuls(self) -> _Matmuls:
        """Options for matrix multiplications."""

    @property
    def norms(self) -> _Norms:
        """Options for all normalisation ops."""

    @property
    def optimizations(self) -> _Optimizations:
        """Rewrites made while compiling."""

    @property
    def pooling(self) -> _Pooling:
        """Options for pooling."""

    @property
    def scheduling(self) -> _Scheduling:
        """How the ops of a program are put in order."""

    @property
    def slices(self) -> _Slices:
        """Options for slices and embedding lookups."""

    @property
    def _profiling(self) -> _Profiling:
        """Private: what the legacy profiling options set."""

    def __init__(self) -> None:
        """Makes a configuration in which every option has its default."""

    def configure_ipu_system(self, device: str = cpu) -> None:
        """Configures the IPU system with these options.

        Args:
            device: the CPU device that is local to the IPUs.

        Raises:
            Exception: as for `config.configure_ipu_system`.
        """
