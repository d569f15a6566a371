"""docs/accuracy.md, made of a comparison."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from tensorflow_ipu.configs import chips
from tensorflow_ipu.configs.chips import Chip, Status
from tensorflow_ipu.costs.releases import CURRENT, SDK_1_0, SDK_2_1, Release

from . import (
    across_chips,
    distinct,
    judged,
    memory,
    picture,
    report,
    residuals,
    scaling,
    whole_models,
)
from .causes import CAUSES
from .implausible import LEFT_OUT
from .predict import Outcome
from .prediction import Prediction

_INTRODUCTION = """\
# Accuracy of the model of the chip

`benchmarks/accuracy.py` makes this page. Change the script, not the page.

The script takes published measurements (`benchmarks/measured/rows.csv`, each with its source) and
predicts each that the model can express: with the cost functions for what runs on one tile or is
one op, with plans of compiled programs for whole models. `--rows FILE` takes another file of the
same columns, `--all` prints every row.

* The **error** of a row is |predicted / measured - 1|.
* The **rank correlation** is Spearman's, of times. Rates become the seconds of one item: of a
  teraflop, an image, a sequence. Over all rows it is high as soon as the model tells a microsecond
  from a second, so look at the groups too.
* A row is **expressible** if its own text says enough. Rules decide, from workload, parameters,
  metric and unit. No rule that predicts knows a measured value.
* Rows that cannot be right are **left out**, with the reason, at the end of the page. A rule judges
  them by rows of the same source, never by a prediction.
* The file leaves out what is not of the chip: the host's compile times, power, software models.
"""

_GROUPS = """\
Rows of a group are judged together, and the headline is the median over groups, so no group drowns
the others. **Coverage** is the share of the rows that the model expresses. The **noise floor** is
the median difference of two measurements of one configuration, where sources repeat each other.
"""

_PICTURES = """\
A point is a row, on logarithmic axes. The dashed line is where prediction and measurement are
equal, the light band 10 % around it, the dark band the noise floor.
"""

_KINDS = """\
## By kind and chip

The same rows by kind and chip:
"""

_ACROSS = """\
### One chip left out

Two figures of a kind are fitted to the rows of one chip alone, measured = factor x predicted +
cycles, and predict the rows of another chip. They are in the place of the fitted figures of the
chips, of which no single set is fitted to all chips. Kinds that only one chip has rows of are left
out. Where the last column is about that before it, the model carries over from chip to chip. A
factor between Mk1 and Mk2 that is not 1 is what one table cannot tell: chip or release.
"""

_LEFT_OUT = """\
### One configuration left out

Each figure is fitted again to all configurations of its group but one, by least squares of relative
errors, and predicts that one. The last column has the least and the greatest value that it then
takes. Where the errors are about those of the figure in use, no single configuration decides it.
"""

_CONFIGURATIONS = """\
Rows of whole models with the same chip, replicas, micro-batch, counts and model are one
configuration, whatever their framework, its version or their metric. Each counts once here:
"""

_BOUND = """\
A configuration has one prediction, and its rows differ. Predicting the median of its rows for each
would have these errors of whole models row by row: median {median:.1%}, 90th percentile
{percentile:.1%}, largest {largest:.1%}. The largest are of {names}.
"""

_INTERVALS = """\
## Intervals

Eight of ten configurations were measured between `low` and `high` times the predicted time, half of
them below `middle`. The percentiles of the residuals, log(measured / predicted), are widened until
they hold eight of ten residuals of a source that was left out. If one source has most
configurations of a kind, its series (figures, tables and networks) are left out in turn instead.
Grouped convolutions are of one series, so each configuration is left out by itself, which checks
less: others of its layer remain. The last column checks the interval: the share of configurations
in an interval that was made, factor and all, without what was left out.

The **correlation** is the part of the variance that configurations of one figure, table or network
have in common. It says how the error of a sum of ops grows. With cycles c, deviation d and
correlation r of a kind, the sum deviates by d x sqrt(r (sum of c)^2 + (1 - r) (sum of c^2)), and
kinds are taken as independent.

`tensorflow_ipu/costs/intervals.py` has the same table. Reports, `tensorflow-ipu report`, `whatif`,
remedies and `split` show an interval with every time and throughput. That of an op is of its kind.
That of a program is of the sum of its ops, and never narrower than that of whole models: these have
errors that their ops do not, as the line below the table shows. Kinds that have an error in common,
which the formula does not know, are another reason why less than 80 % lie in the sum.
"""

_METHOD = """\
## What is predicted, and how

* **Matrix product on the tile**: the vertex of 1x1 convolutions on every tile, and entering a
  compute set. No exchange.
* **Elementwise on the tile**: the vertex of the operation. Rows that include the measuring overhead
  get the 45 cycles between two stamps that the author of tessellate-ipu states.
* **Library convolution**: 200 convolutions of an image of four channels, each with the copy of its
  result back to the input. The sizes of the images are those that the program printed. On several
  IPUs each has a part of the rows, and they exchange the rows at their borders.
* **Hand-written stencil**: the division of the image over IPUs, tiles and workers is that of the
  published program. A worker takes one of its turns for each instruction of the published vertex:
  nine loads, eleven operations and a store for each vector of channels, six for the loop; the
  earlier program, of the rows of `minRowsPerTile`, adds three indices for each vector. Around the
  vertices are the copies and the exchange of borders. Rows of `bytes per cell` are of the same
  program. Rows of phases do not name their image: the largest, whose program takes their sum.
* **Sparse product**: the dense product of the library, whose products alone change: as many as
  there are elements that are not zero, of the vector unit for elements and of the matrix unit for
  blocks. A dynamic pattern exchanges twice. Not given and taken as equal: the columns.
* **Transfer to the host**: as feeds of a plan.
* **Layout assumed**: models whose layout on the IPUs, micro-batch and length of data are not
  published (`benchmarks/measured/models/`). ViT-Base, EfficientNet-B4 with groups of 16 (images of
  380 x 380), U-Net and Conformer-M (12.3 s of speech) are four stages on four IPUs, ResNeXt-101 is
  sequential on one IPU, RNN-T (16.7 s of speech, 80 pieces of words) on two. These rows do not
  count as whole models: an error may be the assumption's.
* **Training throughput**: a training step is compiled (forward, backward, gradient accumulation,
  sum over replicas, update) and planned for the row's chip, replicas and counts. Throughput =
  samples of one update / time of one update.
* ResNet-50 v1.5: images of 224 x 224 in 8 bits, float16 with float16 partials, one IPU per replica,
  four sequential stages with recomputation from a checkpoint after each block, proportion 0.15,
  batch norms over two replicas, which gather their statistics in each pass. SGD with momentum
  stands for LARS. The rows of Argonne on 2 to 16 IPUs give no micro-batch: it is 16, as the
  global batch of 16,384 on Pod16 in Graphcore's table says.
* BERT: float16 with float16 partials, dropout, 15 % masked tokens, layer normalisation in float32,
  recomputation of each layer from a checkpoint. The embeddings and both heads are on IPU 0. On four
  IPUs the encoder layers are 3, 7, 7, 7 (Large) or 0, 4, 4, 4 (Base), and each IPU has a proportion
  of its own, as in graphcore/examples and on the model card of Graphcore/bert-large-uncased; on
  more they are spread evenly. The proportion of MLPerf is 0.2 on GC200, 0.3 on 16 Bow IPUs, 1 on
  more. The Grouped schedule stands for all frameworks, Adam for LAMB, and the heads of pre-training
  for that of SQuAD. Optimizer state of BERT-Large is in streaming memory, split over the replicas,
  and that of BERT-Base on the chip. The layers are alike, so one per stage is compiled and
  repeated.
* An IPU waits for its input, at the rate of the gateway.
* Gradients are summed over replicas in buffers of up to 10 MB.
* Rows that give only the batch of all replicas: the micro-batch is the largest published one for
  the model (ResNet-50 22; BERT-Large 8 sequences of 128, 2 of 384 or 512; BERT-Base 32 of 128, 8 of
  384; as many tokens at other lengths), or the largest below that divides the batch of a replica.
* Packed rows count unpacked sequences. How many are in a pack follows from the row's batch sizes.
  Where it gives none they are 2 at length 512 (Krell et al., arXiv:2107.02027).
* **Time to train**: the samples to the target are those of MLPerf. For BERT they are the fewest,
  mean and most of the runs of the reference at the same batch, for ResNet-50 the epochs in the
  published logs. Evaluations of MLPerf's rules count as forward passes. Checkpoints and what else
  the host does between epochs are in the measurements only, so these rows do not count as whole
  models.
* **Time of an epoch or block of training**: an epoch of ResNet-50 is the 1,281,167 images of
  ImageNet. A block of BERT is what the rules of MLPerf say: 0.05 x (230.23 x batch + 3,000,000)
  sequences, down to a multiple of 25,000 and up to whole batches.
"""

_CALIBRATION = """\
## What is calibrated

These figures of `configs/chips.py` were fitted, each to a group of rows and none to a single row.
All others are published, derived or assumed, as the file says.
"""

_OF_RELEASES = """\
These belong to the release of the SDK, not to a chip. Those of SDK 1.0 were fitted to the products,
convolutions and reductions of Jia et al. The submissions to MLPerf say their SDK: v1.0 is of 2.1,
v1.1 of 2.3, v2.0 of 2.5. Sums over replicas reach half as much of the links with 2.1, fitted to the
four configurations of v1.0. How fast collectives of SDK 1.0 are is not known.
"""

_RELEASES = (CURRENT, SDK_2_1, SDK_1_0)

_CHECK = """\
The two figures of sums over replicas are fitted together, by least squares of logarithms, with a
factor for the mini-batches of each model and round, so that how well these are predicted does not
enter. The tables show how far they can be trusted: leaving any one configuration out, and with each
round alone. MLPerf v1.1 on GC200 and v2.0 on Bow give the same figures independently. Whole models
of other sources check them. That is not a blind check: these rows were in sight when the programs
and their assumptions above were written. The last table has all whole models by the number of IPUs.
The stencil's figures of a piece are of its programs, not of the chip: the scripts have them.
No figure was fitted to library convolutions, but their rows decided how the model takes
convolutions of few channels on Mk1 and what it does where nothing fits (`tensorflow_ipu/costs/`),
so they are no check.
"""

_MEMORY = """\
## Memory

Nothing is published of the memory of real programs but that they fit. The fullest tile of all IPUs
is that of the plan, with all layers, recomputation and the options above. What a source avoids is
taken not to fit, which follows from its configuration and is not said. GELU, dropout and layer
normalisation are elementwise ops of float32 that take their time one by one; of what they make, a
stage that computes its activations again keeps nothing
(`tensorflow_ipu/planner/program/placed_workload.py`).
"""


def page(outcome: Outcome) -> str:
    """Returns the page as Markdown."""
    models = [p for p in outcome.predictions if whole_models.is_whole_model(p)]
    found = judged.judged(outcome)
    checked = residuals.checked(outcome.predictions)
    parts = [
        _INTRODUCTION,
        "## Result\n",
        _GROUPS,
        _table(judged.HEAD, judged.cells(found)),
        f"{judged.headline(found).capitalize()}.\n",
        *_pictures(found),
        _KINDS,
        _table(report.HEAD, report.table(outcome.predictions)),
        f"In the words of the script: {report.summary(outcome)}.\n",
        f"{report.off_the_line(outcome).capitalize()}.\n",
        _CONFIGURATIONS,
        _table(report.CONFIGURATIONS, report.configurations(outcome.predictions)),
        _bound(models),
        _INTERVALS,
        _table(residuals.HEAD, residuals.cells(checked)),
        residuals.sums(outcome.predictions, checked) + "\n",
        _METHOD,
        _calibration(),
        _CHECK,
        _table(report.HEAD, report.checks(outcome.predictions)),
        _table(scaling.HEAD, scaling.table(outcome.predictions)),
        _table(scaling.SIZES, scaling.by_size(outcome.predictions)),
        _LEFT_OUT,
        _table(report.LEFT_OUT, report.left_out_cells(outcome.predictions)),
        _ACROSS,
        _table(across_chips.HEAD, across_chips.cells(across_chips.across(outcome.predictions))),
        _memory(models),
        "## Rows of whole models\n",
        _table(("row", "chip", "predicted", "measured", "ratio"), [_cells(p) for p in models]),
        *_left_out(outcome),
        "## Not expressible\n",
        _table(("reason", "rows"), [(why, str(n)) for why, n in report.by_reason(outcome)]),
    ]
    return "\n".join(parts)


def _pictures(found: Sequence[judged.Judged]) -> list[str]:
    """Returns one section per group: its picture and the causes of its time."""
    parts = ["## Predicted against measured\n", _PICTURES]
    for group in found:
        parts.append(f"### {group.name[0].upper()}{group.name[1:]}\n")
        if group.found.rows:
            path = f"pictures/accuracy_{picture.slug(group.name)}.svg"
            parts.append(f"![{group.name}: predicted against measured]({path})\n")
        parts.append(CAUSES[group.name] + "\n")
    return parts


def _left_out(outcome: Outcome) -> list[str]:
    """Rows that cannot be right, each with the reason; none without such rows."""
    rows = [
        (str(row), f"{_digits(row.value)} {row.unit}", reason.split(": ", 1)[1])
        for row, reason in outcome.refused
        if reason.startswith(LEFT_OUT)
    ]
    if not rows:
        return []
    return ["## Left out\n", _table(("row", "measured", "reason"), rows)]


def _bound(models: Sequence[Prediction]) -> str:
    """Returns the text on errors of predicting configurations' medians; empty without models."""
    if not models:
        return ""
    spread = distinct.spread(models)
    median, percentile = np.percentile([error for error, _ in spread], [50, 90])
    largest = max(error for error, _ in spread)
    names = dict.fromkeys(_name(one) for error, one in spread if error == largest)
    text = _BOUND.format(
        median=median, percentile=percentile, largest=largest, names=" and ".join(names)
    )
    return text.replace("%", " %")


def _name(prediction: Prediction) -> str:
    """A row in words: its workload and source."""
    row = prediction.row
    return f"{row.workload} on {row.chip} ({row.source.split(':')[0]})"


def _memory(models: Sequence[Prediction]) -> str:
    """Programs whose memory is known to suffice, or not to; none without whole models."""
    return f"{_MEMORY}\n{_table(memory.HEAD, memory.table())}" if models else ""


def _calibration() -> str:
    """Which figures of the chips were fitted to measurements."""
    found: dict[tuple[str, str, str], list[Chip]] = {}
    for chip in chips.CHIPS:
        for figure in chip.figures():
            if figure.source.status is Status.CALIBRATED:
                key = (figure.name, f"{figure.value:g} {figure.unit}", figure.source.text)
                found.setdefault(key, []).append(chip)
    rows = [
        (f"`{name}`", value, ", ".join(chip.title for chip in of), text)
        for (name, value, text), of in found.items()
    ]
    releases = [
        (f"`{field.name}`", *(f"{getattr(one, field.name):g}" for one in _RELEASES))
        for field in dataclasses.fields(Release)
        if field.name != "name"
    ]
    head = ("figure", *(one.name for one in _RELEASES))
    return "\n".join(
        [
            _CALIBRATION,
            _table(("figure", "value", "chips", "fitted to"), rows),
            _OF_RELEASES,
            _table(head, releases),
        ]
    )


def _cells(prediction: Prediction) -> tuple[str, ...]:
    row = prediction.row
    options = "; ".join(f"{k}={v}" if v else k for k, v in row.parameters.items())
    return (
        f"{row.workload}: {options}; {row.metric} ({row.source.split(':')[0]})",
        row.chip,
        f"{_digits(prediction.value)} {row.unit}",
        f"{_digits(row.value)} {row.unit}",
        f"{prediction.ratio:.2f}",
    )


def _digits(value: float) -> str:
    """A number with four significant digits."""
    return f"{float(f'{value:.4g}'):,.10g}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"
