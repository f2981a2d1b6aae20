"""Plant known faults one at a time, and see which the tests notice: `make mutants`.

python tests/mutants [WORD ...]
"""

import sys

from planting import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
