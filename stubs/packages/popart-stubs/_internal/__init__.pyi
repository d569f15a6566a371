# Made by stubs/make_stubs.py.

from tensorflow_ipu.frontends.popart.internal import *
from popart._internal import ir as ir
