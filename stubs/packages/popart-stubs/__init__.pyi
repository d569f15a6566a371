# Made by stubs/make_stubs.py.

from tensorflow_ipu.frontends.popart import *
from popart import _internal as _internal
from popart import builder as builder
from popart import custom_ops as custom_ops
from popart import session as session
from popart import tensorinfo as tensorinfo
from popart import writer as writer
