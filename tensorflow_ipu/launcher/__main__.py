"""Entry of `python -m tensorflow_ipu.launcher`: the command `poprun`."""

import sys

from tensorflow_ipu.launcher.main import main

sys.exit(main())
