"""All measurements of the core: python -m benchmarks"""

import subprocess
import sys

<<<<<<< HEAD
for name in ("local_steps", "whole_run", "memory", "compression"):  # in processes of their own: so is their memory
=======
for name in (
    "local_steps",
    "whole_run",
    "memory",
    "compression",
):  # each in a process of its own, so that memory is its own
>>>>>>> cond
    subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)
