"""`python -m tailmask` is the command line."""

import sys

from tailmask.cli import main

sys.exit(main())
