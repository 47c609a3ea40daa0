"""``python -m pulsegate.worker LISTENER LINE``: one worker of the data plane, started by the control process."""

import sys

from pulsegate.billing import open_ledger
from pulsegate.gateway.worker import main

if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), open_ledger))
