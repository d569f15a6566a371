"""Runs `tensorflow-ipu` as `python -m tensorflow_ipu.cli`."""

import sys

from tensorflow_ipu.cli.main import main

sys.exit(main())
