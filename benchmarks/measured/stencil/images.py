"""The images of the stencil's experiments."""

from __future__ import annotations

import re

from ..rows import NotExpressible, Row, checked_size

# Width and height in pixels, as the program prints them (raw_results.txt of the same repository).
IMAGES = {"bricks": (499, 302), "leaf": (768, 1024), "cheese": (2200, 1122)}

_IMAGE = re.compile(r"image[ =](\w+)")
_SIZE = re.compile(r"(\d+)x(\d+)")


def image_of(row: Row) -> tuple[int, int]:
    """Returns width and height of the image of a row, in pixels.

    Args:
        row: it names an image, or gives the size of an image or grid.

    Raises:
        NotExpressible: it does neither.
    """
    match = _IMAGE.search(row.text)
    if match and match[1] in IMAGES:
        return IMAGES[match[1]]
    size = _SIZE.search(row.parameters.get("image", row.parameters.get("grid", "")))
    if size is None:
        raise NotExpressible("the size of the image is not given")
    width, height = (checked_size(int(text), "the size of the image") for text in size.groups())
    return width, height
