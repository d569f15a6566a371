"""The source of popxl_from_nothing.ipynb: docs/make_notebooks.py makes it."""

# %% [markdown]
# # PopXL from nothing to a trained model and its plan
#
# With PopXL you write down what the chip does, op by op: which tensors go to the host, which graph is called, which weight is
# updated. Nothing of TensorFlow or Keras shows. This notebook begins with one addition, and ends with a trained network and
# its plan: how much memory and time the program needs on a chip.

# %%
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # leaves out log lines

import numpy as np
import popxl
from popxl import ops
from popxl.ops import var_updates
from popxl.transforms import autodiff
from sklearn.datasets import load_digits
from tensorflow.python import ipu

# %% [markdown]
# ## 1. A program with one op
#
# An `Ir` is a program. Its `main_graph` is what runs. A *stream* is the way between the host and the chip: `host_load` takes the next
# tensor from one, `host_store` sends a tensor to one. A `Session` runs the program.

# %%
ir = popxl.Ir()
with ir.main_graph:
    numbers = popxl.h2d_stream((3,), popxl.float32, "numbers")  # host to device
    result = popxl.d2h_stream((3,), popxl.float32, "result")  # device to host
    x = ops.host_load(numbers)
    ops.host_store(result, x + 10)

with popxl.Session(ir, "ipu_hw") as session:
    print(session.run({numbers: np.array([1, 2, 3], np.float32)})[result])

# %% [markdown]
# Shapes are known when an op is made. So mistakes show at once, in the line that makes them.

# %%
with ir.main_graph:
    try:
        x @ popxl.constant(np.ones((4, 2), np.float32))
    except Exception as error:
        print(error)

# %% [markdown]
# ## 2. A network
#
# A graph is made from a function, like a function in C: it is on the chip once, however often it is called. This one is a network of
# three layers for scikit-learn's images of digits, which have 8x8 pixels.
#
# **Look at** its inputs and outputs: a batch of images, a matrix and a bias for each layer, and 10 numbers for each image.

# %%
BATCH, SIZES = 16, (64, 128, 128, 10)


def network(images, weights):
    """Returns the logits of a batch of images."""
    x = images.reshape((-1, 64))
    for weight, bias in zip(weights[:-2:2], weights[1:-2:2]):
        x = ops.relu(x @ weight + bias)
    return x @ weights[-2] + weights[-1]


def first_weights():
    """Returns a matrix and a bias for each layer."""
    generator = np.random.default_rng(0)
    made = []
    for size, after in zip(SIZES, SIZES[1:]):
        matrix = generator.normal(0, np.sqrt(2 / size), (size, after))
        made += [matrix.astype(np.float32), np.zeros(after, np.float32)]
    return made


digits = load_digits()
images = (digits.images / 16).astype(np.float32)
labels = digits.target.astype(np.int32)
BATCHES = 1408 // BATCH

ir = popxl.Ir()
ir.num_host_transfers = BATCHES  # how often a run loads from a stream, and stores to one
with ir.main_graph:
    image_stream = popxl.h2d_stream((BATCH, 8, 8), popxl.float32, "images")
    label_stream = popxl.h2d_stream((BATCH,), popxl.int32, "labels")
    loss_stream = popxl.d2h_stream((), popxl.float32, "loss")
    weights = [popxl.variable(value) for value in first_weights()]
    forward = ir.create_graph(network, image_stream.spec, weights)

for tensor in (*forward.inputs, *forward.outputs):
    print(tensor.id, tensor.shape)

# %% [markdown]
# ## 3. Gradients
#
# `autodiff` makes the graph of the gradients: the backward pass. The images need none, so they are left out.
#
# **Look at** what it expects: the gradient of the result, and what it needs of the forward pass. It gives a gradient for each weight.

# %%
backward = autodiff(forward, grads_required=forward.inputs[1:])
for connection in backward.expected_inputs:
    print("expects:", connection.connection_type.name, connection.fwd_tensor.id)
for connection in backward.expected_outputs:
    print("gives:  ", connection.connection_type.name, connection.fwd_tensor.id)

# %% [markdown]
# ## 4. A step of training, and a loop
#
# A step takes a batch, goes forward and backward, and changes the weights in place. `ops.repeat` runs it as often as there are
# batches, so one run of the program is one pass over the data. The host has nothing to do meanwhile.

# %%
RATE = 0.2


@popxl.in_sequence()  # one op after the other, as they are written
def step(weights: list[popxl.TensorByRef]):
    """Takes a batch and updates the weights."""
    batch, classes = ops.host_load(image_stream), ops.host_load(label_stream)
    call = ops.call_with_info(forward, batch, *weights)
    logits = call.outputs[0]  # the others are what the backward pass needs
    loss, slope = ops.nll_loss_with_softmax_grad(ops.softmax(logits, axis=-1), classes)
    ops.host_store(loss_stream, loss)
    gradients = ops.call(backward.graph, slope, inputs_dict=backward.inputs_dict(call))
    for weight, gradient in zip(weights, gradients):
        var_updates.accumulate_(weight, gradient, -RATE)


with ir.main_graph, popxl.in_sequence():
    ops.repeat(ir.create_graph(step, weights), BATCHES, weights)

# %% [markdown]
# ## 5. Training
#
# `ipu.profiler.profile()` keeps the report of what runs in its block.

# %%
data = {
    image_stream: images[:1408].reshape(BATCHES, BATCH, 8, 8),
    label_stream: labels[:1408].reshape(BATCHES, BATCH),
}
with ipu.profiler.profile() as profiled, popxl.Session(ir, "ipu_hw") as session:
    for epoch in range(8):
        losses = session.run(data)[loss_stream]
        print(f"epoch {epoch + 1}: loss {losses.mean():.4f}")
    trained = session.get_tensors_data(weights)

# %% [markdown]
# ## 6. Has it learned?
#
# The weights are arrays of the host now. A second program predicts the digits that the first one has never seen.

# %%
ir = popxl.Ir()
with ir.main_graph:
    tests = popxl.h2d_stream((389, 8, 8), popxl.float32, "tests")
    answers = popxl.d2h_stream((389, 10), popxl.float32, "answers")
    values = [popxl.variable(trained[weight]) for weight in weights]
    ops.host_store(answers, network(ops.host_load(tests), values))

with popxl.Session(ir, "ipu_hw") as session:
    predicted = session.run({tests: images[1408:]})[answers].argmax(axis=-1)

print(f"right: {np.mean(predicted == labels[1408:]):.1%}")

# %% [markdown]
# ## 7. The plan
#
# The report of the training has the plan of the program: which tensor is on which tile, and which op takes how long.
#
# **Look at** *Timeline*: the loop is short, and much of it is `sync`, in which the tiles wait for each other. **Look at** *Memory*: the
# weights are nothing for a chip with 900 MB.
#
# *The stored notebook has a picture of the page. Run the cell to work in the page itself.*

# %%
(report,) = profiled.reports
report

# %% [markdown]
# The plan is data, too. This is the program as the chip runs it, with the clock cycles of each part:

# %%
for node in report.program_tree()[:14]:
    print(f"{'  ' * node.depth}{node.kind} {node.name}: {node.cycles:,.0f} cycles")

# %% [markdown]
# And this is what is on the fullest tile when it is fullest:

# %%
(memory,) = report.plan.memory
for name, size in list(report.tensors_on(memory.worst_tile).items())[:8]:
    print(f"{size:8,} bytes  {name}")
print(f"{memory.worst_bytes:8,} bytes of {report.target['memory_per_tile']:,}")

# %% [markdown]
# ## Where to go next
#
# * `docs/popxl.md`: modules, large models, remote memory, replicas.
# * `examples/popxl_gpt.py`: a small GPT as a pipeline over four IPUs.
# * `docs/popart.md`: if you have an ONNX model or a PopART program.
