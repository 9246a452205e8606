"""All measurements of the core: python -m benchmarks"""

import subprocess
import sys

NAMES = ("local_steps", "whole_run", "memory", "compression", "network")
for name in NAMES:  # each in a process of its own, so that memory is its own
    subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)
