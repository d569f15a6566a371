# Made by stubs/make_stubs.py.

from tensorflow_ipu.api.eager import *
from tensorflow_ipu.eager import backprop as backprop
