# Made by stubs/make_stubs.py.

from tensorflow_ipu.distributed.popdist import *
from popdist import tensorflow as tensorflow
