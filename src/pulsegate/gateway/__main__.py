"""``python -m pulsegate.gateway LISTENER_FD LINE_FD``: one worker, started by the control process."""

import sys

from pulsegate.gateway.worker import main

if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
