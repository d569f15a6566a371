"""The source of pipeline.ipynb: docs/make_notebooks.py makes it."""

# %% [markdown]
# # A pipeline over four IPUs
#
# A model that is too large for one IPU is cut into *stages*, one for each IPU. While the second IPU works on one batch, the first
# one works on the next: that is a pipeline. This notebook makes one, shows when which IPU does what, and looks for what would
# make it better. It begins where `keras_digits.ipynb` ends.

# %%
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # leaves out log lines of TensorFlow

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits
from tensorflow.python import ipu

config = ipu.config.IPUConfig()
config.auto_select_ipus = 4
config.configure_ipu_system()
strategy = ipu.ipu_strategy.IPUStrategy()

digits = load_digits()
images = (digits.images / 16).astype(np.float32)[..., np.newaxis]
labels = digits.target.astype(np.int32)
train = tf.data.Dataset.from_tensor_slices((images[:1408], labels[:1408]))
train = train.cache().shuffle(1408, seed=0).batch(4, drop_remainder=True)

# %% [markdown]
# ## 1. Stages
#
# A layer is in the stage of the `with` block that it is called in.
#
# An update of the weights is made of several *mini-batches*, so that the IPUs have something to do at the same time. Here it is 8
# of them, of 4 images each.

# %%
tf.keras.utils.set_random_seed(0)
layers = tf.keras.layers

with strategy.scope():
    x = inputs = tf.keras.Input((8, 8, 1))
    with ipu.keras.PipelineStage(0):
        x = layers.Conv2D(32, 3, padding="same", activation="relu", name="conv_1")(x)
    with ipu.keras.PipelineStage(1):
        x = layers.Conv2D(32, 3, padding="same", activation="relu", name="conv_2")(x)
        x = layers.MaxPool2D(name="pool")(x)
    with ipu.keras.PipelineStage(2):
        x = layers.Flatten(name="flatten")(x)
        x = layers.Dense(128, activation="relu", name="hidden")(x)
    with ipu.keras.PipelineStage(3):
        x = layers.Dense(10, name="logits")(x)
    model = tf.keras.Model(inputs, x)

    model.set_pipelining_options(
        gradient_accumulation_steps_per_replica=8, gradient_accumulation_reduction_method="mean"
    )
    model.compile(
        optimizer=tf.keras.optimizers.SGD(0.1, momentum=0.9),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        steps_per_execution=88,
    )

with ipu.profiler.profile() as profiled, strategy.scope():
    history = model.fit(train, epochs=4, verbose=0).history

print("loss:    ", np.round(history["loss"], 3))
print("accuracy:", np.round(history["accuracy"], 3))

# %% [markdown]
# ## 2. The schedule
#
# The compiled program knows its schedule. In a notebook it is a picture: a row is an IPU, a column is a step of time, and a number
# is a mini-batch.
#
# **Look at** mini-batch 0: it goes forward from IPU 0 to IPU 3 and then backward to IPU 0. **Look at** the empty cells at both ends:
# there IPUs wait. Their share is the *bubble*. After the last backward pass all IPUs update their weights.

# %%
(program,) = [one for one in ipu.profiler.executables() if one.pipeline]
schedule = program.pipeline.schedule
schedule

# %%
print(f"bubble: {schedule.bubble_share:.1%} of the cells are empty")
print("mini-batches that stages put aside until they come back:", schedule.stash_depths())

# %% [markdown]
# ## 3. Other schedules
#
# A schedule can be made without a model. *Interleaved* puts fewer mini-batches aside, so it needs less memory. *Sequential* puts
# nothing aside, but only one IPU works at a time.

# %%
from tensorflow_ipu import schedule as schedules

interleaved = schedules.PipelineDescription(
    (0, 1, 2, 3), count=8, schedule=schedules.PipelineSchedule.Interleaved
)
schedules.build(interleaved)

# %%
for choice in schedules.PipelineSchedule:
    description = schedules.PipelineDescription((0, 1, 2, 3), count=8, schedule=choice)
    built = schedules.build(description)
    print(f"{choice.name:12} bubble {built.bubble_share:5.1%}, puts aside {built.stash_depths()}")

# %% [markdown]
# ## 4. A smaller bubble
#
# The pipeline is filled and emptied once for each update. With more mini-batches in an update this matters less.

# %%
for count in (8, 16, 32, 64):
    built = schedules.build(schedules.PipelineDescription((0, 1, 2, 3), count=count))
    print(f"{count:3} mini-batches: bubble {built.bubble_share:5.1%}")

# %% [markdown]
# ## 5. What if?
#
# So far a cell was a cell. On a chip the stages take different times, and the slowest one makes the others wait. The report knows
# the times, so it can plan the program again with another number of mini-batches or another schedule.
#
# **Look at** `bubble`: it is larger than above, since the stages are not equally long. **Look at** `items/s`, the images per second.

# %%
from tensorflow_ipu.tuning import what_if

(report,) = profiled.reports
changes = {"count": [8, 32], "schedule": ["grouped", "interleaved", "sequential"]}
print(what_if.to_text(what_if.outcomes(report.workload, report.settings, changes)))

# %% [markdown]
# ## 6. Stages of equal length
#
# Which stage is the slowest? And where would the model be cut best?

# %%
from tensorflow_ipu.tuning.stages import stage_split

split = stage_split.split(report.workload, report.settings, 4)
for number, stage in enumerate(split.stages):
    print(f"stage {number}: {stage.cycles:9,.0f} cycles  {', '.join(stage.layers)}")
print(f"the mean stage takes {split.balance:.0%} of the time of the slowest one")

# %% [markdown]
# ## 7. Remedies
#
# Is the pipeline worth its IPUs at all? `tensorflow-ipu remedies` searches among combinations of changes for the one with most images
# per second that fits, and says what to write in the program. A saved report is all that it needs. In a terminal it is
#
# ```sh
# tensorflow-ipu remedies pipeline.json --ipus 4 --plans 12 --only stages count batch schedule
# ```

# %%
from tensorflow_ipu.cli.main import main as tensorflow_ipu_command

report.save("pipeline.json")
exit_code = tensorflow_ipu_command(
    "remedies pipeline.json --ipus 4 --plans 12 --only stages count batch schedule".split()
)

# %% [markdown]
# For so small a model the answer is larger batches. A pipeline is for models that do not fit on one IPU: `docs/capacity.md` has one,
# with the message that you get and what helps.
#
# ## Where to go next
#
# * `docs/parallelism.md`: replicas, recomputation, where weights and activations are kept.
# * `docs/command_line.md`: `whatif`, `split`, `remedies` and `diff` in a terminal.
# * The next notebook, `popxl_from_nothing.ipynb`: the same chip, programmed op by op.
