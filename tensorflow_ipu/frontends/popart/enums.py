"""The enumerations of PopART; PopXL shares them."""

from tensorflow_ipu.frontends.common.enums import *  # noqa: F403 - all of them
