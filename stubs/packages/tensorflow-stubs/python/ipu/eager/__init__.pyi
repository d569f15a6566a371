# Made by stubs/make_stubs.py.

from tensorflow_ipu.api.eager import *
from tensorflow.python.ipu.eager import backprop as backprop
