"""The source of keras_digits.ipynb: docs/make_notebooks.py makes it."""

# %% [markdown]
# # A Keras model on an IPU, and what it needs there
#
# This notebook trains a small network on hand-written digits. It runs on a *simulated* IPU, so it needs no other hardware than
# this computer. You get two things from one run: the trained model, and a report of the memory and the time that it would take
# on the real chip.
#
# **Before you begin:** `pip install -e '.[notebooks]'` in a checkout of `tensorflow_ipu`. Then run the cells from top to bottom;
# all of them together take less than a minute.

# %%
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # leaves out log lines of TensorFlow

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits
from tensorflow.python import ipu

# %% [markdown]
# ## 1. An IPU
#
# A program asks for IPUs. Here it asks for one. TensorFlow then has a device of the type `IPU`.

# %%
config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

tf.config.list_physical_devices("IPU")

# %% [markdown]
# ## 2. Data
#
# scikit-learn brings 1,797 images of 8x8 pixels, so nothing is downloaded. This is the first one:

# %%
digits = load_digits()
images = (digits.images / 16).astype(np.float32)[..., np.newaxis]
labels = digits.target.astype(np.int32)

for row in images[0, ..., 0]:
    print("".join(" .:-=+*#%@"[int(9 * pixel)] * 2 for pixel in row))
print("a picture of the digit", labels[0])

# %% [markdown]
# A program on the IPU has fixed shapes. So all batches have the same size: that is what `drop_remainder=True` is for.

# %%
BATCH = 32
train = tf.data.Dataset.from_tensor_slices((images[:1408], labels[:1408]))
train = train.cache().shuffle(1408, seed=0).batch(BATCH, drop_remainder=True)
test = tf.data.Dataset.from_tensor_slices((images[1408:1760], labels[1408:1760]))
test = test.batch(BATCH, drop_remainder=True)

print(len(train), "batches to train with,", len(test), "to test with")

# %% [markdown]
# ## 3. A model
#
# It is an ordinary Keras model. Only one thing is new: it is made, compiled and used in the *scope* of an `IPUStrategy`.
#
# `steps_per_execution` says how many batches the IPU takes in one go, without the host. The more the faster. It has to divide
# the batches: 11 do so for both datasets.

# %%
strategy = ipu.ipu_strategy.IPUStrategy()
tf.keras.utils.set_random_seed(0)

with strategy.scope():
    model = tf.keras.Sequential(
        [
            tf.keras.Input((8, 8, 1)),
            tf.keras.layers.Conv2D(32, 3, padding="same", activation="relu", name="conv"),
            tf.keras.layers.MaxPool2D(name="pool"),
            tf.keras.layers.Flatten(name="flatten"),
            tf.keras.layers.Dense(64, activation="relu", name="hidden"),
            tf.keras.layers.Dense(10, name="logits"),
        ]
    )
    model.compile(
        optimizer=tf.keras.optimizers.SGD(0.1, momentum=0.9),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        steps_per_execution=11,
    )

# %% [markdown]
# ## 4. Training
#
# `ipu.profiler.profile()` collects the programs that are compiled in its block. The training needs no change for that.
#
# **Look at** the bars: one says what is compiled, before the first step. The bar of Keras moves by 11 steps at a time, when an
# execution ends.

# %%
with ipu.profiler.profile() as profiled, strategy.scope():
    model.fit(train, epochs=6)

# %% [markdown]
# Tests and predictions are programs of their own. They compute what stock Keras computes.

# %%
with strategy.scope():
    loss, accuracy = model.evaluate(test, verbose=0)
    logits = model.predict(test.map(lambda images, labels: images), verbose=0)

print(f"accuracy on images that it has never seen: {accuracy:.1%}")
print("predicted:", logits[:12].argmax(axis=1))
print("labels:   ", labels[1408:1420])

# %% [markdown]
# ## 5. The report
#
# Every compiled program has a report. In a notebook a report shows itself, as the page that you can also save to a file.
#
# **Look at** the first lines: does the program fit, how full is the fullest tile, how many images a second would the chip train
# with? Then open the other views: *Memory*, *Operations*, *Timeline*.
#
# *The notebook as it is stored has a picture of the page, because pages are large. Run the cell to work in the page itself.*

# %%
(report,) = profiled.reports
report

# %% [markdown]
# ## 6. Numbers in a program
#
# All that the page shows can be asked for. Which layer takes how long? These are clock cycles of one execution, which is
# 11 batches here: forward, backward, and the update of the weights.

# %%
for row in sorted(report.layers(), key=lambda row: -row.cycles):
    print(f"{row.layer:32} {row.cycles:10,.0f} cycles {row.variable_bytes:10,} bytes of variables")

# %% [markdown]
# And what keeps an operation busy? `sync` means that the tiles mostly wait for each other, which takes as long for one
# number as for thousands. So this network is too small for its chip.

# %%
for row in report.operations()[:6]:
    print(f"{row.cycles:10,.0f} cycles  {row.bound:10} {row.type}")

# %% [markdown]
# ## 7. What if?
#
# A report is enough to plan the program again for something else: larger batches, other chips, several copies of the model
# (*replicas*) that each train with batches of their own.
#
# **Look at** `items/s`, the images per second. A batch eight times as large costs little more time, as the chip was hardly busy.

# %%
from tensorflow_ipu.tuning import what_if

changes = {"batch": [32, 256], "replicas": [1, 4]}
print(what_if.to_text(what_if.outcomes(report.workload, report.settings, changes)))

# %% [markdown]
# These numbers are modelled, for a real chip. What they are compared with is in `docs/accuracy.md`.
#
# ## Where to go next
#
# * `docs/keras.md`: replicas, gradient accumulation, callbacks, saving.
# * `docs/reports.md`: every view of the report.
# * The next notebook, `pipeline.ipynb`: a model that is spread over four IPUs.
