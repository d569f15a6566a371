"""Runs `poprun` as `python -m tensorflow_ipu.launcher`."""

import sys

from tensorflow_ipu.launcher.main import main

sys.exit(main())
