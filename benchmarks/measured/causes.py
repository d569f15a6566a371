"""Causes of each row group's time, and effects the model leaves out: text of the page."""

from __future__ import annotations

from collections.abc import Mapping

from . import groups

#: By group, in sentences of the page.
CAUSES: Mapping[str, str] = {
    groups.ONE_TILE: """\
Profiles of convolutions and poolings whose operands are on one tile (T10). Convolutions of up to
four input channels put kernel positions in the place of channels. Kernel positions outside the
image are skipped. Most is missed of 7x7 kernels on images of up to 400 positions, and of 1x1
kernels with four channels, which take a quarter to a half of the predicted cycles.""",
    groups.EVERY_TILE: """\
The same vertex on all tiles, without exchange. Two figures were fitted to these rows: the cycles of
a compute set and of an elementwise vertex.""",
    groups.SPARSE: """\
Products whose zeros are left out. The model does not know how the library divides non-zero blocks
over the tiles, so it takes the exchange of the dense product. No figure was fitted.""",
    groups.IMAGE: """\
Convolutions of one large image of four channels on Mk1. Serial parts, for lack of memory, decide
their time, and the proportion of memory decides these.""",
    groups.STENCIL: """\
Programs with a vertex of their own. The instructions of the vertex are published, so only exchange,
synchronisation and copies are predicted.""",
    groups.LINEAR: """\
Operands lie on the tiles in order of their elements. They are first brought into the order of the
matrix unit, which costs more than the product of small matrices.""",
    groups.BATCHED: """\
Attention scores, many small products at once. Groups are divided over the tiles before rows and
columns. If the results exceed the proportion of memory, the product is done in serial parts, and
each part copies the results of the others: so throughput falls from 43 to 16 TFLOP/s as the batch
grows. Where the parts begin is not published, and errors are largest there.""",
    groups.DENSE_MK1: """\
SDK 1.0 takes 1.24 times the cycles that the library's later estimators say, and 750 cycles for each
product. Both figures belong to the release, not to the chip.""",
    groups.DENSE: """\
Square products and the projections of BERT. The programs copy the first operand and the result at
each repetition, at 1.1 cycles a byte, which counts as theirs. Most is missed of matrices that fill
the memory, squares from 5,376 in float32 and 7,168 in float16: their serial parts take 30 to 90 %
longer than predicted. Three independent measurements of square float32 products on Mk2 differ by 5
to 6 %, so less cannot be told apart.""",
    groups.GROUPED: """\
ResNeXt, 32 groups of 2 to 32 input channels. A group of few channels leaves most of the matrix unit
without work. SDK 1.0 pads each group with zeros, by a copy in pieces of 4 bytes; later releases
combine groups and let kernel rows share the input channels. Most is missed of 1x1 layers of two and
of eight channels a group, at single batches.""",
    groups.CONVOLUTIONS: """\
Layers of six networks on Mk1, SDK 1.0. First layers of 3 channels are padded to those of the matrix
unit, by copies in pieces of 4 bytes. Padding at the border is not stated and taken as `SAME`. Most
is missed of first layers. Those of 3x3 with stride 1 take up to twice the predicted time, those of
11x11 half of it.""",
    groups.BETWEEN: """\
Messages over IPU-Links. Bandwidths of large messages are right, but messages of 4 bytes are not.
Each takes a link about 1.6 ns, and on 8 and 16 IPUs they meet on the same links. The model has
neither. The first message takes 0.6 us, half of the latency that stencils on 16 IPUs give.""",
    groups.ON_CHIP: """\
Exchange, broadcast, gather, scatter, all-to-all and sums between tiles of Mk1, with one
synchronisation. A tile receives a word in each cycle, and two of a broadcast to more than two
tiles. Words of far tiles are on their way while those of near ones arrive, so a gather hides the
way. Near tiles take 70 cycles less than the model has for all. Gathers of 160 bytes take 440 cycles
more, for which no cause is known.""",
    groups.HOST: """\
Streams between host and chip. Rows of Mk1 contain a launch of 8.8 us, and the rate of its interface
was fitted to them.""",
    groups.ELEMENTWISE: """\
ReLU and squares of TensorFlow, and loads of all workers. The programs copy operands and results,
which takes most of their time: the rows check that of the program more than the kernel.""",
    groups.TO_TRAIN: """\
Times to train contain checkpoints, evaluations and the input of the host, which the model does not
have.""",
    groups.WHOLE: """\
Training steps of ResNet-50 and BERT. No figure of the ops was fitted to them; two figures of sums
over replicas were, and one of SDK 2.1. These rows miss by more than 12 %:

* BERT-Large of PyTorch on Pod64 (1.18): it is 3.3 times as fast as on Pod16. PopART with the same
  SDK is 20 % faster there. What PyTorch does on the host for each update is not modelled.
* ResNet-50 with micro-batches of 2 (1.20): 0.4 ms of each are missing, about 2 us for each
  convolution. Micro-batches of 14 and 20 do not show it, so the cause is not known.
* ResNet-50 on 64 GC200, of Nasari et al. (1.17): it updates every 24 micro-batches and takes as
  long for each as MLPerf does that updates every 3. So it waits for its input.
* ResNet-50 on Bow Pod64, before SDK 2.5 (0.82): its batch of 2,560 would be two micro-batches
  for an update. All other rows of this machine have 5,120, with which the ratio is 0.98.
* ResNet-50 on Bow Pod256 with SDK 3.0 (0.88): the same batch takes 8 % longer in MLPerf, with 2.5.
* BERT-Base with 512 tokens (0.86): its micro-batch is not published.
* BERT-Large on 64 GC200 with SDK 2.1 (1.13): 14 % slower than the same program with 2.3. The
  slowdown of sums explains 11 % of it.

BERT-Large has two errors that cancel in part. From Pod16 to Pod256 of MLPerf v2.0 the micro-batches
of an update become fewer, and their measured times say 4.3 to 4.5 ms for each and 200 ms for the
update, where the model has 4.9 to 5.1 ms and 45 to 170 ms. Adam stands for LAMB, whose norms are
missing.

Two rows of Argonne are left out: one process of the host feeds four IPUs. With four of them the
same machine is 23 to 31 % faster, and the prediction is 4 % above it. With these rows the 90th
percentile of the group would be 13 %.""",
    groups.ASSUMED: """\
The layout on the IPUs is not published, so an error may be the assumption's.""",
    groups.OTHER: """\
Programs without a published description that could be compiled.""",
}
