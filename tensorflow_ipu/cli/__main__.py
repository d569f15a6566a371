"""Entry of `python -m tensorflow_ipu.cli`: the command `tensorflow-ipu`."""

import sys

from tensorflow_ipu.cli.main import main

sys.exit(main())
