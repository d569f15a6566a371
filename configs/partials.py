"""Types of partial sums of matrix products and convolutions, as options and scopes name them."""

from __future__ import annotations

from collections.abc import Mapping

#: Poplar's option for the type, of all ops of a library, and its values.
OPTION = "partialsType"
OF_OPTION: Mapping[str, str] = {"half": "float16", "float": "float32"}

#: Key of the frontend attributes of an op in `scopes.partials_type`, and its values.
KEY = "PARTIALS_TYPE"
OF_KEY: Mapping[str, str] = {"F16": "float16", "F32": "float32"}
