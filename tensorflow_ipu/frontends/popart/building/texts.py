"""Docstrings of methods that add nodes: their inputs and attributes, each with a line."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

# Parameter that methods of several ops have -> what it is.
_COMMON: Mapping[str, str] = {
    "axes": "dimensions that are meant.",
    "axis": "the dimension that is meant; -1 for the last.",
    "axis_size": "size of the result in that dimension.",
    "beam_width": "labels that are kept at each step of the search.",
    "blank": "class of the blank.",
    "blocksize": "width and height of a block.",
    "closeBracket": "what is printed behind a dimension.",
    "collectiveOperator": "how values are reduced; sums by default.",
    "commGroup": "the replicas; all by default.",
    "debugContext": "name of the node, or its debug context.",
    "debugPrefix": "name of the node, or its debug context.",
    "debug_context": "name of the node, or its debug context.",
    "degree": "of the splines.",
    "descending": "1 for the greatest first.",
    "digits": "digits of a number.",
    "dimensions": "those to turn round.",
    "edgeItems": "elements at each end of a dimension that is shortened.",
    "enable_index_broadcast": "1 if an index of one dimension stands for all others.",
    "ends": "first position of each axis that is not taken.",
    "epsilon": "what is added to variances.",
    "floatFormat": "number of the format: 0 for what fits, 1 for fixed, 2 for scientific.",
    "group_size": "number of groups.",
    "ignoreIndex": "label without a loss.",
    "increment": "what is added.",
    "inputIsLogProbability": "whether the first input has logarithms of probabilities.",
    "keepdims": "1 to keep dimensions of size 1.",
    "lambda_": "what the sum is multiplied by.",
    "maxLineWidth": "characters of a line.",
    "mode": '"DCR" for depth, column, row; "CRD" for column, row, depth.',
    "modulus": "what the remainder is of.",
    "momentum": "share that running mean and variance keep.",
    "noOverlap": "1 if slices of several calls never overlap.",
    "num_groups": "number of groups of channels.",
    "num_outputs": "how many of its outputs there are to be.",
    "openBracket": "what is printed before a dimension.",
    "outputFullSequence": "1 for the outputs of all steps, 0 for that of the last.",
    "print_gradient": "1 to print the gradient, too.",
    "ratio": "share of the values that are dropped.",
    "reduction": "how values are reduced to one.",
    "remap_type": "when: 0 forwards and backwards, 1 forwards, 2 backwards.",
    "right": "1 if a bucket has its right boundary.",
    "scale": "what values are multiplied by.",
    "scale0": "what the first input is multiplied by.",
    "scale1": "what the second input is multiplied by.",
    "separator": "what is printed between elements.",
    "shape": "the shape.",
    "sizes": "of the slice, along each of the axes.",
    "stable": "1 if equal elements keep their order.",
    "starts": "first position of each axis that is taken.",
    "strides": "distance between the elements taken, along each dimension.",
    "summariseThreshold": "elements from which on a tensor is shortened.",
    "title": "what is printed before; the name of the tensor if it is empty.",
    "to": "the type, by its name or ONNX's number.",
    "top_paths": "number of labels that are returned.",
    "zeroUnused": "1 to set other rows of the result to zero.",
}


def with_arguments(
    text: str,
    signature: inspect.Signature,
    inputs: str,
    attributes: Mapping[str, str] | None = None,
) -> str:
    """Returns the docstring of a method: what it does, and a line for each parameter.

    Args:
        text: what it does.
        signature: of the method.
        inputs: names of the inputs of the op.
        attributes: what attributes are; others are looked up in the table of those that ops share.
    """
    texts = {"args": f"ids of the inputs: {inputs}.", **_COMMON, **(attributes or {})}
    names = [name for name in signature.parameters if name != "self"]
    lines = [f"    {name}: {texts[name]}" for name in names]
    result = "The id of the output, or a list of ids if there are several."
    return "\n".join([text, "", "Args:", *lines, "", "Returns:", f"    {result}"])
