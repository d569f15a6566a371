# Made by stubs/make_stubs.py.

from tensorflow_ipu.feeds.ipu_infeed_queue import *
