"""Draws the pictures of the page of a report: `python docs/make_pictures.py`, with Chromium.

They show the report of a training of a small encoder, and what float16 changes in it.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import tensorflow as tf
from playwright.sync_api import Browser, sync_playwright
from tensorflow.python import ipu

from tensorflow_ipu.profiler.export import html_page
from tensorflow_ipu.profiler.report import Report

PICTURES = Path(__file__).with_name("pictures")
_SIZE = {"width": 1120, "height": 560}
_BATCH, _LENGTH, _WIDTH, _HEADS, _WORDS = 4, 128, 256, 4, 8192
_STEPS = 2

layers = tf.keras.layers


def encoder() -> tf.keras.Model:
    """Returns two transformer layers that classify texts."""
    x = layers.Input([_LENGTH], dtype=tf.int32)
    y = layers.Embedding(_WORDS, _WIDTH, name="embedding")(x)
    for i in range(2):
        attention = layers.MultiHeadAttention(_HEADS, _WIDTH // _HEADS, name=f"attention_{i}")
        y = layers.LayerNormalization(name=f"attention_norm_{i}")(y + attention(y, y))
        z = layers.Dense(4 * _WIDTH, "relu", name=f"expand_{i}")(y)
        z = layers.Dense(_WIDTH, name=f"contract_{i}")(z)
        y = layers.LayerNormalization(name=f"output_norm_{i}")(y + z)
    pooled = layers.GlobalAveragePooling1D(name="pool")(y)
    return tf.keras.Model(x, layers.Dense(10, dtype="float32", name="logits")(pooled))


def report(policy: str) -> Report:
    """Returns the report of a training of the encoder.

    Args:
        policy: types of its layers, such as `mixed_float16`.
    """
    ipu.config.reset_ipu_configuration()
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    tf.keras.backend.clear_session()
    tf.keras.mixed_precision.set_global_policy(policy)
    element = tf.zeros([_BATCH, _LENGTH], tf.int32), tf.zeros([_BATCH], tf.int32)
    data = tf.data.Dataset.from_tensors(element).repeat(_STEPS)
    with ipu.ipu_strategy.IPUStrategy().scope(), ipu.profiler.profile() as profiled:
        model = encoder()
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("sgd", loss, steps_per_execution=_STEPS)
        model.fit(data, verbose=0)
    return max(profiled.reports, key=lambda found: len(found.workload.ops))


def shoot(browser: Browser, page: Path, name: str, fragment: str, **options: Any) -> None:
    """Writes the picture of a view.

    Args:
        browser: what draws it.
        page: file of the page.
        name: of the picture.
        fragment: what the address of the page says to show.
        options: of the window, such as `color_scheme`.
    """
    window = browser.new_page(viewport=_SIZE, **options)
    window.goto(f"{page.as_uri()}#{fragment}")
    window.wait_for_timeout(300)  # until plots are drawn
    window.screenshot(path=PICTURES / name)
    window.close()


def main() -> None:
    """Makes the reports, the pages and the pictures."""
    single, mixed = report("float32"), report("mixed_float16")
    busiest = single.operations()[1]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page, both = Path(folder) / "report.html", Path(folder) / "diff.html"
        page.write_text(html_page.report_page(single), encoding="utf-8")
        both.write_text(html_page.comparison_page(single, mixed), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        shoot(browser, page, "report_summary.png", "view=summary")
        chosen = f"view=operations&chosen=op:{busiest.op}"
        shoot(browser, page, "report_operations.png", chosen, color_scheme="dark")
        shoot(browser, page, "report_timeline.png", "view=timeline")
        shoot(browser, page, "report_memory.png", "view=memory&chosen=tile:0.7")
        shoot(browser, both, "report_diff.png", "view=layers")
        browser.close()


if __name__ == "__main__":
    main()
