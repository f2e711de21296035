"""What a test must know of the machine that it runs on: whether its CPUs are emulated."""

import os

#: tools.vm makes it; an instruction takes a fixed time there, many times that of a real CPU.
IS_MACHINE = os.path.isdir("/run/slackwater-vm")
