"""All measurements of the core: python -m benchmarks"""

import subprocess
import sys

for name in ("local_steps", "whole_run", "memory", "compression"):  # in processes of their own: so is their memory
    subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)
