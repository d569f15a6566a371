# Made by stubs/make_stubs.py.

from tensorflow_ipu.frontends.popxl.ops import *
from popxl.ops import collectives as collectives
from popxl.ops import negative_log_likelihood as negative_log_likelihood
from popxl.ops import random_seed as random_seed
from popxl.ops import utils as utils
from popxl.ops import var_updates as var_updates
