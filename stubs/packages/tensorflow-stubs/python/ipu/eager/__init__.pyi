# Made by stubs/make_stubs.py.

from tensorflow_ipu.eager import *
from tensorflow.python.ipu.eager import backprop as backprop
