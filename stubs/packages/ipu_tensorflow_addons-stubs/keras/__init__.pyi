# Made by stubs/make_stubs.py.

from ipu_tensorflow_addons.keras import extensions as extensions
from ipu_tensorflow_addons.keras import layers as layers
from ipu_tensorflow_addons.keras import losses as losses
from ipu_tensorflow_addons.keras import optimizers as optimizers
