# Made by stubs/make_stubs.py.

from tensorflow_ipu.feeds.dataset_extractor import *
