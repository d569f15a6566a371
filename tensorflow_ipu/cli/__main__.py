"""`python -m tensorflow_ipu.cli` is the same as `tensorflow-ipu`."""

import sys

from tensorflow_ipu.cli.main import main

sys.exit(main())
