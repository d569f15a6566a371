"""What to write in a program for a remedy, in the words of the API that it is written with."""

from __future__ import annotations

from tensorflow_ipu.planner.alternatives import stage_text
from tensorflow_ipu.planner.alternatives.stage_split import Split
from tensorflow_ipu.planner.workload import POPXL, Workload

_OFFLOAD = "offload_weight_update_variables=True"


class Words:
    """What to write in a program of TensorFlow or Keras, one or more lines for each remedy."""

    recompute = "config.allow_recompute = True"
    float16 = (
        'tf.keras.backend.set_floatx("float16") before the model is made, or dtype=tf.float16 for '
        "data and variables"
    )
    weights = (
        "ipu.pipelining_ops.pipeline(..., offload_weights=True, replicated_weight_sharding=True)"
    )

    def __init__(self, workload: Workload) -> None:
        """Writes for a program.

        Args:
            workload: the program.
        """
        self._has_pipeline = workload.pipeline is not None

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def offload(self) -> str:
        """Returns what keeps the state of the optimizer in streaming memory."""
        if self._has_pipeline:
            return (
                f"graphs: ipu.pipelining_ops.pipeline(..., {_OFFLOAD})\n"
                f"Keras: model.set_pipelining_options(..., {_OFFLOAD})"
            )
        # Keras has no such option for updates after each mini-batch.
        optimizer = "ipu.optimizers.GradientAccumulationOptimizerV2"
        return f"graphs: {optimizer}(optimizer, num_mini_batches=1, {_OFFLOAD})"

    def split(self) -> str:
        """Returns what splits that state over replicas, too."""
        option = f"{_OFFLOAD}, replicated_optimizer_state_sharding=True"
        return self.offload().replace(_OFFLOAD, option)

    def proportion(self, proportion: float) -> str:
        """Returns what gives ops a part of a tile's memory for temporaries."""
        text = f'poplar_options["availableMemoryProportion"] = "{proportion}"'
        return f"config.convolutions.{text}\nconfig.matmuls.{text}\nconfig.slices.{text}"

    def batch(self, size: int, times: int) -> str:
        """Returns what makes mini-batches of a size, of which an update takes more."""
        return (
            f"dataset.batch({size}, drop_remainder=True), and {times} times as many mini-batches "
            "for an update (gradient accumulation)"
        )

    def pipeline(self, split: Split, ipus: int, replicas: int) -> str:
        """Returns what makes a pipeline of the stages of a split."""
        return stage_text.pipeline(split, ipus, replicas)

    def shards(self, split: Split, ipus: int, replicas: int) -> str:
        """Returns what puts the stages of a split on IPUs."""
        return stage_text.shards(split, ipus, replicas)


class PopxlWords(Words):
    """What to write in a program of PopXL and its addons."""

    recompute = "backward = addons.recompute_graph(addons.autodiff(forward))"
    float16 = "popxl.float16 for streams, variables and factories of variables"
    weights = "addons.add_replica_sharded_variable_input, and rts.all_gather_replica_sharded_graph"

    def offload(self) -> str:
        """Returns what keeps the state of the optimizer in remote buffers."""
        return (
            "buffers = addons.named_variable_buffers(factories); factories.init_remote(buffers)\n"
            "addons.load_remote_graph before the update, addons.store_remote_graph after it"
        )

    def split(self) -> str:
        """Returns what keeps a part of that state in remote buffers of each replica."""
        return (
            "addons.named_variable_buffers(factories, shard_groups=...), with gradients from\n"
            "ops.collectives.replicated_reduce_scatter(..., "
            "configure_output_for_replicated_tensor_sharding=True)"
        )

    def proportion(self, proportion: float) -> str:
        """Returns what gives ops a part of a tile's memory for temporaries."""
        options = "ir._pb_ir.getSessionOptions()"
        return (
            "\n".join(
                f'{options}.{library}Options["availableMemoryProportion"] = "{proportion}"'
                for library in ("convolution", "matmul")
            )
            + f"\nor available_memory_proportion={proportion} for single ops"
        )

    def batch(self, size: int, times: int) -> str:
        """Returns what makes micro-batches of a size, of which an update takes more."""
        return (
            f"streams of {size} elements, and {times} times as many for an update: "
            "addons.autodiff_with_accumulation, ir.num_host_transfers"
        )

    def pipeline(self, split: Split, ipus: int, replicas: int) -> str:
        """Returns what makes a pipeline of the stages of a split."""
        return "\n".join(
            [
                *stage_text.lines("stage", split.stages),
                f"with addons.pipelined_execution({split.count}) as pipeline:",
                "    with pipeline.stage(i), popxl.ipu(i):  # makes and calls its graphs",
                "Backward passes are further stages, on the IPUs of their forward passes.",
            ]
        )

    def shards(self, split: Split, ipus: int, replicas: int) -> str:
        """Returns what puts the stages of a split on IPUs."""
        return "\n".join(
            [
                *stage_text.lines("IPU", split.stages),
                "with popxl.ipu(i):  # makes and calls its graphs; copy_to_ipu between IPUs",
            ]
        )


def words_of(workload: Workload) -> Words:
    """Returns what writes instructions for a program.

    Args:
        workload: the program.
    """
    return PopxlWords(workload) if workload.api == POPXL else Words(workload)
