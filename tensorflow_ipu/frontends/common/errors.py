"""The exceptions of PopART and PopXL; also the module `popxl.errors`."""

from __future__ import annotations


class popart_exception(Exception):  # noqa: N801 - the name of the original
    """A program breaks a rule of PopART; programs know it as `popart.popart_exception`."""


class popart_internal_exception(popart_exception):  # noqa: N801
    """An internal condition of PopART does not hold."""


class popart_runtime_error(popart_exception):  # noqa: N801
    """A session is not in the state that a call requires."""


class poplibs_exception(Exception):  # noqa: N801
    """The libraries of the device refuse an operation."""


class poplar_exception(Exception):  # noqa: N801
    """The device refuses a program or an option."""


class poplar_runtime_error(poplar_exception):  # noqa: N801
    """A program ends with an error while it runs."""


class poplar_application_runtime_error(poplar_runtime_error):  # noqa: N801
    """A program stops itself, as the op Abort does."""


class UndefinedValue(Exception):
    """A property has no value, such as the IPU of a tensor that no op uses."""
