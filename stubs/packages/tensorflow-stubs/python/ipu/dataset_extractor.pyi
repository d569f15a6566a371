# Made by stubs/make_stubs.py.

from tensorflow_ipu.feeds.files.dataset_extractor import *
