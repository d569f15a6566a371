"""`tensorflow.contrib` of TensorFlow 1.15, from the table `compat/tables/contrib.py`.

from tensorflow_ipu.compat import contrib

cell = contrib.rnn.LSTMCell(64)
"""

from tensorflow_ipu.compat.facade import names_of

__getattr__, __dir__ = names_of(__name__)
