# Made by stubs/make_stubs.py.

from tensorflow_ipu.frontends.pva import *
from pva import pva_core as pva_core
