# Made by stubs/make_stubs.py.

from tensorflow_ipu.frontends.popart.internal.ir import *
