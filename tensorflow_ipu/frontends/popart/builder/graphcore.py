"""The ops of the domain ai.graphcore, as methods that add nodes."""

from __future__ import annotations

import inspect
from typing import Any

from tensorflow_ipu.frontends.common.enums import (
    CollectiveOperator,
    ReductionType,
    ScatterReduction,
)
from tensorflow_ipu.frontends.common.replica_groups import CommGroup
from tensorflow_ipu.frontends.popart.builder.graph import GRAPHCORE_DOMAIN
from tensorflow_ipu.frontends.popart.builder.opsets import CoreOpset, node
from tensorflow_ipu.frontends.popart.debug_info import DebugContextLike, as_context
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops.registry import COMM_GROUP
from tensorflow_ipu.frontends.popart.signatures import checked, refused


@checked
class AiGraphcoreOpset1(CoreOpset):
    """The ops of the domain ai.graphcore.

    Each method takes the ids of the inputs and the attributes of its op, adds a node, and returns
    the id of the output, or a list if there are several.
    """

    domain = GRAPHCORE_DOMAIN
    version = 1

    @node("Abort", outputs=0, inputs="none, or a condition")
    def abort(self, args: list[str] = [], debugContext: DebugContextLike = "") -> Any:
        """Stops the run: always, or if its input is true."""

    @node("Atan2", inputs="y and x")
    def atan2(self, args: list[str], debugContext: DebugContextLike = "") -> Any:
        """Computes the angle of y and x."""

    @node("BatchNormalization", inputs="x, scale, bias, mean and variance")
    def batchnormalization(
        self,
        args: list[str],
        num_outputs: int,
        epsilon: float = 9.999999747378752e-06,
        momentum: float = 0.8999999761581421,
        debugContext: DebugContextLike = "",
    ) -> Any:
        """Normalizes over the batch; running variances are unbiased."""

    @node("BitwiseAnd", inputs="two integers")
    def bitwiseand(self, args: list[str] = [], debugContext: DebugContextLike = "") -> Any:
        """Computes the bitwise and."""

    @node("BitwiseNot", inputs="an integer")
    def bitwisenot(self, args: list[str] = [], debugContext: DebugContextLike = "") -> Any:
        """Computes the bitwise not."""

    @node("BitwiseOr", inputs="two integers")
    def bitwiseor(self, args: list[str] = [], debugContext: DebugContextLike = "") -> Any:
        """Computes the bitwise or."""

    @node("BitwiseXnor", inputs="two integers")
    def bitwisexnor(self, args: list[str] = [], debugContext: DebugContextLike = "") -> Any:
        """Computes the bitwise exclusive nor."""

    @node("BitwiseXor", inputs="two integers")
    def bitwisexor(self, args: list[str] = [], debugContext: DebugContextLike = "") -> Any:
        """Computes the bitwise exclusive or."""

    @node("Bucketize", inputs="x and the sorted boundaries")
    def bucketize(
        self, args: list[str] = [], right: int = 0, debugContext: DebugContextLike = ""
    ) -> Any:
        """Finds the bucket of each value between sorted boundaries."""

    @node("CopyVarUpdate", inputs="the weight and the value")
    def copyvarupdate(self, args: list[str], debugContext: DebugContextLike = "") -> Any:
        """Writes a value into a weight."""

    @node(
        "CtcBeamSearchDecoder",
        outputs=3,
        inputs="logarithms of probabilities, and the lengths of sequences",
    )
    def ctcbeamsearchdecoder(
        self,
        args: list[str],
        blank: int = 0,
        beam_width: int = 100,
        top_paths: int = 1,
        debug_context: DebugContextLike = "",
    ) -> Any:
        """Finds the most probable labels of sequences."""

    def ctcloss(
        self,
        args: list[str],
        reduction: ReductionType = ReductionType.Mean,
        blank: int = 0,
        outDataType: str = "UNDEFINED",
        zeroInfinity: bool = False,
        debugContext: DebugContextLike = "",
    ) -> Any:
        """Computes the loss of connectionist temporal classification.

        Args:
            args: logarithms of probabilities, targets, and the lengths of both.
            reduction: of the losses of sequences.
            blank: class of the blank.
            outDataType: type of the loss; "UNDEFINED" for that of the input.
            zeroInfinity: whether infinite losses are zero, and have no gradient.
            debugContext: name of the node.

        Returns:
            The id of the loss. The node has another output, which no node takes.
        """
        attributes = {
            "reduction": reduction.name,
            "blank": blank,
            "outDataType": outDataType,
            "zeroInfinity": int(zeroInfinity),
        }
        return self._add("Ctc", args, 2, attributes, debugContext)[0]

    @node("DepthToSpace", inputs="x, of batch, channels, height and width")
    def depthtospace(
        self, args: list[str], blocksize: int, mode: str, debugContext: DebugContextLike = ""
    ) -> Any:
        """Moves channels into blocks of space."""

    @node("Detach", inputs="x")
    def detach(self, args: list[str], debugContext: DebugContextLike = "") -> Any:
        """Passes its input on, and no gradient back."""

    @node("DynamicAdd", inputs="x, the offset, and the summand")
    def dynamicadd(
        self,
        args: list[str],
        axes: list[int],
        sizes: list[int],
        debugContext: DebugContextLike = "",
    ) -> Any:
        """Adds a slice at an offset."""

    @node("DynamicSlice", inputs="x, the offset, and a tensor for the result if there is one")
    def dynamicslice(
        self,
        args: list[str],
        axes: list[int],
        sizes: list[int],
        noOverlap: int = 0,
        debugContext: DebugContextLike = "",
    ) -> Any:
        """Takes a slice at an offset."""

    @node("DynamicUpdate", inputs="x, the offset, and the slice")
    def dynamicupdate(
        self,
        args: list[str],
        axes: list[int],
        sizes: list[int],
        noOverlap: int = 0,
        debugContext: DebugContextLike = "",
    ) -> Any:
        """Writes a slice at an offset."""

    @node("DynamicZero", inputs="x and the offset")
    def dynamiczero(
        self,
        args: list[str],
        axes: list[int],
        sizes: list[int],
        debugContext: DebugContextLike = "",
    ) -> Any:
        """Writes zeros at an offset."""

    @node("Expm1", inputs="x")
    def expm1(self, args: list[str], debugContext: DebugContextLike = "") -> Any:
        """Computes exp(x) - 1."""

    @node("Fmod", inputs="dividend and divisor")
    def fmod(self, args: list[str], debugContext: DebugContextLike = "") -> Any:
        """Computes the remainder with the sign of the dividend."""

    @node("Gelu", inputs="x")
    def gelu(self, args: list[str], debugContext: DebugContextLike = "") -> Any:
        """Computes the approximate Gaussian error linear unit."""

    @node("GeluErf", inputs="x")
    def geluerf(self, args: list[str], debugContext: DebugContextLike = "") -> Any:
        """Computes the Gaussian error linear unit."""

    @node("GroupedGather", inputs="x and the indices")
    def groupedgather(
        self,
        args: list[str] = [],
        axis: int = 0,
        group_size: int = 1,
        debugContext: DebugContextLike = "",
    ) -> Any:
        """Gathers in each group of the first dimension."""

    @node("GroupedScatterReduce", inputs="values, indices, and initial values if there are any")
    def groupedscatterreduce(
        self,
        args: list[str],
        axis_size: int,
        axis: int = -1,
        reduction: ScatterReduction = ScatterReduction.Sum,
        group_size: int = 1,
        enable_index_broadcast: int = 1,
        debugContext: DebugContextLike = "",
    ) -> Any:
        """Reduces values by index in each group of the first dimension."""

    @node("GroupNormalization", outputs=3, inputs="x, scale and bias")
    def groupnormalization(
        self,
        args: list[str],
        num_groups: int,
        epsilon: float = 9.999999747378752e-06,
        debugContext: DebugContextLike = "",
    ) -> Any:
        """Normalizes over groups of channels."""

    @node("IdentityLoss", inputs="x")
    def identityloss(
        self,
        args: list[str],
        reduction: ReductionType = ReductionType.Mean,
        debugContext: DebugContextLike = "",
    ) -> Any:
        """Reduces a tensor to a loss."""

    @node("IncrementMod", inputs="x")
    def incrementmod(
        self, args: list[str], increment: float, modulus: float, debugContext: DebugContextLike = ""
    ) -> Any:
        """Adds a number and takes the remainder."""

    @node("L1", inputs="x")
    def l1loss(
        self,
        args: list[str],
        lambda_: float,
        reduction: ReductionType = ReductionType.Mean,
        debugContext: DebugContextLike = "",
    ) -> Any:
        """Computes the sum of absolute values."""

    @node("Log1p", inputs="x")
    def log1p(self, args: list[str], debugContext: DebugContextLike = "") -> Any:
        """Computes log(1 + x)."""

    @node("LSTM", outputs=2, inputs="x, weights, bias and initial state")
    def lstm(
        self, args: list[str], outputFullSequence: int = 1, debugContext: DebugContextLike = ""
    ) -> Any:
        """Runs a long short-term memory."""

    @node("NearbyInt", inputs="x")
    def nearbyint(self, args: list[str], debugContext: DebugContextLike = "") -> Any:
        """Rounds, halves to even numbers."""

    @node("Nll", inputs="probabilities and labels")
    def nllloss(
        self,
        args: list[str],
        reduction: ReductionType = ReductionType.Mean,
        ignoreIndex: int | None = None,
        inputIsLogProbability: bool = False,
        debugContext: DebugContextLike = "",
    ) -> Any:
        """Computes the negative log-likelihood of labels."""

    @node("Nop", inputs="x")
    def nop(self, args: list[str], debugContext: DebugContextLike = "") -> Any:
        """Passes its input on."""

    @node("NormalizeImage", inputs="images, offsets and scales")
    def normalize_image(
        self, args: list[str], scale: float = 1.0, debugContext: DebugContextLike = ""
    ) -> Any:
        """Normalizes the channels of images and adds a fourth."""

    @node("PrintTensor", inputs="x")
    def printtensor(
        self,
        args: list[str],
        print_gradient: int = 1,
        debugContext: DebugContextLike = "",
        title: str = "",
        summariseThreshold: int = 1000,
        edgeItems: int = 3,
        maxLineWidth: int = 75,
        digits: int = 8,
        floatFormat: int = 0,
        separator: str = " ",
        openBracket: str = "[",
        closeBracket: str = "]",
    ) -> Any:
        """Prints a tensor each time it is computed, and passes it on."""

    @node("ReduceMedian", outputs=2, inputs="x")
    def reducemedian(
        self,
        args: list[str],
        axes: list[int] | None = None,
        keepdims: int = 1,
        debugContext: DebugContextLike = "",
    ) -> Any:
        """Finds medians and their positions."""

    @node("Remainder", inputs="dividend and divisor")
    def remainder(self, args: list[str], debugContext: DebugContextLike = "") -> Any:
        """Computes the remainder with the sign of the divisor."""

    @node("Reshape", inputs="x")
    def reshape(self, args: str, shape: list[int], debugContext: DebugContextLike = "") -> Any:
        """Gives a tensor another shape."""

    @node("Reverse", inputs="x")
    def reverse(
        self, args: list[str], dimensions: list[int], debugContext: DebugContextLike = ""
    ) -> Any:
        """Turns dimensions round."""

    @node("Round", inputs="x")
    def round(self, args: list[str], debugContext: DebugContextLike = "") -> Any:
        """Rounds, halves away from zero."""

    @node("Scale", inputs="x")
    def scale(self, args: list[str], scale: float, debugContext: DebugContextLike = "") -> Any:
        """Multiplies by a number."""

    @node("ScaledAdd", inputs="two tensors, and their factors if these are tensors")
    def scaledadd(
        self,
        args: list[str],
        scale0: float = 1.0,
        scale1: float = 1.0,
        debugContext: DebugContextLike = "",
    ) -> Any:
        """Adds two tensors, each times a number."""

    @node("ScatterReduce", inputs="values, indices, and initial values if there are any")
    def scatterreduce(
        self,
        args: list[str],
        axis_size: int,
        axis: int = -1,
        reduction: ScatterReduction = ScatterReduction.Sum,
        enable_index_broadcast: int = 1,
        debugContext: DebugContextLike = "",
    ) -> Any:
        """Reduces values by index."""

    @node("SequenceSlice", inputs="source, destination, number of rows, and offsets in both")
    def sequenceslice(
        self, args: list[str], zeroUnused: int = 0, debugContext: DebugContextLike = ""
    ) -> Any:
        """Copies rows from one tensor into another."""

    @node("ShapedDropout", inputs="x")
    def shapeddropout(
        self,
        args: list[str],
        shape: list[int],
        ratio: float = 0.5,
        debugContext: DebugContextLike = "",
    ) -> Any:
        """Drops values with a mask of a given shape."""

    @node("Slice", inputs="x")
    def slice(
        self,
        args: list[str],
        ends: list[int],
        starts: list[int],
        axes: list[int],
        debugContext: DebugContextLike = "",
    ) -> Any:
        """Takes a slice."""

    @node("Sort", outputs=2, inputs="x")
    def sort(
        self,
        args: list[str] = [],
        axis: int = -1,
        descending: int = 0,
        stable: int = 0,
        debugContext: DebugContextLike = "",
    ) -> Any:
        """Sorts along a dimension; returns values and indices."""

    @node(
        "SplineBasis",
        outputs=2,
        inputs="coordinates, sizes of the kernel, and which dimensions are open",
    )
    def splinebasis(self, args: list[str], degree: int, debugContext: DebugContextLike = "") -> Any:
        """Computes B-spline bases and the indices of their weights."""

    @node("SplineWeighting", inputs="x, weights, and both results of SplineBasis")
    def splineweighting(self, args: list[str] = [], debugContext: DebugContextLike = "") -> Any:
        """Applies the results of SplineBasis."""

    @node("Subsample", inputs="x")
    def subsample(
        self, args: list[str], strides: list[int], debugContext: DebugContextLike = ""
    ) -> Any:
        """Takes every n-th element along each dimension."""

    @node("Swish", inputs="x")
    def swish(self, args: list[str] = [], debugContext: DebugContextLike = "") -> Any:
        """Computes x times its sigmoid."""

    @node("TensorRemap", inputs="x")
    def tensorremap(
        self, args: list[str], remap_type: int = 0, debugPrefix: DebugContextLike = ""
    ) -> Any:
        """Chooses the layout of a tensor anew."""

    def call(
        self, args: list[str], num_outputs: int, callee: Any, debugContext: DebugContextLike = ""
    ) -> list[str]:
        """Calls a subgraph; all its calls share code.

        Args:
            args: its inputs.
            num_outputs: how many outputs it has.
            callee: the builder of the subgraph.
            debugContext: name of the node.

        Raises:
            popart_exception: If numbers of inputs or outputs differ from the subgraph's.
        """
        graph = callee.graph_proto
        for told, count, expected in (
            ("inputs", len(args), len(graph.input)),
            ("outputs", num_outputs, len(graph.output)),
        ):
            if count != expected:
                raise popart_exception(
                    f"For CallOp '{as_context(debugContext).path_name}', number of {told} "
                    f"({count}) does not match that of the callee subgraph ({expected})"
                )
        return self._add("Call", args, num_outputs, {"callee": graph}, debugContext)

    def packedDataBlock(
        self,
        args: list[str],
        maxSequenceLengths: list[int],
        resultSize: int,
        callbackBatchSize: int,
        callback: Any,
        debugContext: DebugContextLike = "",
    ) -> Any:
        """Runs a subgraph on packed sequences.

        Args:
            args: data, offsets and lengths for each input, then offsets and lengths of the result.
            maxSequenceLengths: longest sequence of each input.
            resultSize: rows of the result.
            callbackBatchSize: sequences that the subgraph takes at once.
            callback: the builder of the subgraph.
            debugContext: name of the node.
        """
        attributes = {
            "maxSequenceLengths": list(maxSequenceLengths),
            "resultSize": resultSize,
            "callbackBatchSize": callbackBatchSize,
            "callback": callback.graph_proto,
        }
        return self._add("PackedDataBlock", args, 1, attributes, debugContext)[0]

    def init(self, *args: Any, **kwargs: Any) -> Any:
        """Makes a tensor.

        Args:
            *args: its shape, the numbers of its `DataType` and `InitType`, its batch axis if any,
                and a debug context.
            **kwargs: the same by name.

        Raises:
            TypeError: If arguments are missing.
        """
        names = ["shape", "data_type", "init_type", "batch_axis", "debugContext"]
        if len(args) > 3 and not isinstance(args[3], int):
            names.remove("batch_axis")
        given = dict(zip(names, args), **kwargs)
        if not {"shape", "data_type", "init_type"} <= set(given) <= {*names, "batch_axis"}:
            signature = inspect.signature(self.init)
            raise refused("init", signature, f"Invoked with: {args}, {kwargs}")
        context = given.pop("debugContext", "")
        attributes = {
            "shape": list(given["shape"]),
            **{name: int(value) for name, value in given.items() if name != "shape"},
        }
        return self._add("Init", [], 1, attributes, context)[0]

    def multiconv(
        self,
        args: list[list[str]],
        dilations: list[list[int]] = [],
        inDilations: list[list[int]] = [],
        pads: list[list[int]] = [],
        outPads: list[list[int]] = [],
        strides: list[list[int]] = [],
        availableMemoryProportions: list[float] = [],
        partialsTypes: list[str] = [],
        planType: str | None = None,
        perConvReservedTiles: int | None = None,
        cycleBackOff: float | None = None,
        enableConvDithering: list[int] = [],
        debugContext: DebugContextLike = "",
    ) -> list[str]:
        """Runs several convolutions at the same time.

        Args:
            args: for each, data, weights, and a bias if any.
            dilations: of each; none for 1.
            inDilations: dilations of the data of each.
            pads: of each.
            outPads: padding of the output of each.
            strides: of each.
            availableMemoryProportions: of each.
            partialsTypes: of each.
            planType: "parallel" or "serial".
            perConvReservedTiles: tiles that each has at least.
            cycleBackOff: how much slower each may be to be smaller.
            enableConvDithering: of each.
            debugContext: name of the node.

        Raises:
            popart_exception: If numbers of inputs or parameters are wrong.
        """
        parameters = {
            "dilations": dilations,
            "inDilations": inDilations,
            "pads": pads,
            "outPads": outPads,
            "strides": strides,
        }
        _check_convolutions(args, parameters)
        plan = {
            "__available_memory": list(availableMemoryProportions),
            "__partials_type": list(partialsTypes),
            "__plan_type": planType,
            "__per_conv_reserved_tiles": perConvReservedTiles,
            "__cycle_back_off": cycleBackOff,
            "__enable_conv_dithering": list(enableConvDithering),
        }
        attributes = {
            "numConvs": len(args),
            "numInputs": [len(inputs) for inputs in args],
            **{name: [n for part in value for n in part] for name, value in parameters.items()},
            **{
                f"{name}Lengths": [len(part) for part in value]
                for name, value in parameters.items()
            },
            **{name: value for name, value in plan.items() if value not in (None, [])},
        }
        inputs = [tensor_id for group in args for tensor_id in group]
        return self._add("MultiConv", inputs, len(args), attributes, debugContext)

    def replicatedallreduce(
        self,
        args: list[str],
        collectiveOperator: CollectiveOperator | None = None,
        commGroup: CommGroup | None = None,
        debugContext: DebugContextLike = "",
    ) -> Any:
        """Reduces a tensor over replicas; all replicas get the result.

        Args:
            args: the input.
            collectiveOperator: how; sums by default.
            commGroup: the replicas; all by default.
            debugContext: name of the node.
        """
        attributes = _collective(collectiveOperator, commGroup)
        return self._add("ReplicatedAllReduce", args, 1, attributes, debugContext)[0]

    def replicatedreducescatter(
        self,
        args: list[str],
        collectiveOperator: CollectiveOperator | None = None,
        commGroup: CommGroup | None = None,
        debugContext: DebugContextLike = "",
    ) -> Any:
        """Reduces the values of replicas, of which each gets a part.

        Args:
            args: the input.
            collectiveOperator: how; sums by default.
            commGroup: the replicas; all by default.
            debugContext: name of the node.

        Returns:
            The id of the part.
        """
        attributes = _collective(collectiveOperator, commGroup)
        return self._add("ReplicatedReduceScatter", args, 1, attributes, debugContext)[0]

    def _add(
        self, type_: str, args: Any, outputs: int, attributes: Any, context: DebugContextLike
    ) -> list[str]:
        context = as_context(context)
        return self._core.add_node(
            type_, self.domain, self.version, list(args), outputs, attributes, context
        )


def _collective(operator: CollectiveOperator | None, group: CommGroup | None) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    if operator is not None:
        attributes["collectiveOp"] = int(operator)
    if group is not None:
        attributes[COMM_GROUP] = [int(group.type), group.replicaGroupSize]
    return attributes


def _check_convolutions(args: list[list[str]], parameters: dict[str, list[list[int]]]) -> None:
    """Refuses convolutions without inputs, and parameters for another number of them."""
    if not args:
        raise popart_exception("MultiConv has no input tensors.")
    for inputs in args:
        if len(inputs) < 2:
            raise popart_exception("Each set of MultiConv must have at least two inputs.")
        if len(inputs) > 3:
            raise popart_exception("Each set of MultiConv can have at most three inputs.")
    for name, value in parameters.items():
        if value and len(value) != len(args):
            raise popart_exception(
                f"The number of {name} parameter sets ({len(value)}) does not match the number of "
                f"input sets ({len(args)})."
            )
