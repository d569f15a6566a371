"""Entry of `python -m tensorflow_ipu.distributed.launcher`: the command `poprun`."""

import sys

from tensorflow_ipu.distributed.launcher.main import main

sys.exit(main())
