"""The data of the examples: scikit-learn's hand-written digits, which ship inside the package."""

from __future__ import annotations

import numpy as np
from sklearn import datasets, model_selection

Split = tuple[np.ndarray, np.ndarray]


def load_digits(test_fraction: float = 0.2) -> tuple[Split, Split]:
    """Loads the 1797 images of 8x8 pixels.

    Args:
        test_fraction: Share of the images that are kept for testing.

    Returns:
        `(images, labels)` for training and for testing: float32 `[n, 8, 8, 1]` in [0, 1], and
        int32 `[n]`.
    """
    digits = datasets.load_digits()
    images = (digits.images / 16.0).astype(np.float32)[..., np.newaxis]
    labels = digits.target.astype(np.int32)
    train_x, test_x, train_y, test_y = model_selection.train_test_split(
        images, labels, test_size=test_fraction, random_state=0, stratify=labels
    )
    return (train_x, train_y), (test_x, test_y)
