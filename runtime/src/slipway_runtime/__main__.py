"""`python -m slipway_runtime`: the worker of the revision that the environment names."""

import sys

from slipway_runtime.environment import WorkerEnvironmentError
from slipway_runtime.worker import main

try:
    main()
except WorkerEnvironmentError as error:
    sys.exit(str(error))
