"""`python -m covey.cli`."""

import sys

from covey.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
