"""Checkpoints: the handful of tensors and numbers from which a run goes on as if it had never stopped.

    checkpoint/round-7.safetensors    rows, state, messages in flight
    checkpoint/latest.json            which file, its digest, the round, the ledger of bits, what the run was

The tensors are written first and under another name, then `latest.json` is swapped: whatever happens in between, the
last good pair stays.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from covey.errors import BadInput, DamagedCheckpoint

FORMAT = 1


@dataclass(frozen=True)
class Checkpoint:
    """What lies in a checkpoint folder."""

    round: int
    tensors: dict[str, Tensor]
    meta: dict[str, Any]


def save(folder: Path, round: int, tensors: Mapping[str, Tensor], meta: Mapping[str, Any]) -> None:
    """Write a checkpoint; the one before it is removed once this one is complete."""
    from safetensors.torch import save as encode

    folder.mkdir(parents=True, exist_ok=True)
    name = f"round-{round}.safetensors"
    blob = encode({key: value.detach().cpu().contiguous() for key, value in tensors.items()})
    write_atomically(folder / name, blob)
    latest = {"format": FORMAT, "round": round, "file": name, "sha256": hashlib.sha256(blob).hexdigest(), **meta}
    write_atomically(folder / "latest.json", json.dumps(latest, indent=1).encode())
    for old in folder.glob("round-*.safetensors"):
        if old.name != name:
            old.unlink(missing_ok=True)


def load(folder: Path) -> Checkpoint:
    """The last good checkpoint."""
    from safetensors.torch import load as decode

    path = folder / "latest.json"
    if not path.is_file():
        raise DamagedCheckpoint(f"There is no checkpoint in {folder.parent}; start anew with another --out folder.")
    try:
        latest = json.loads(path.read_bytes())
        blob = (folder / latest["file"]).read_bytes()
        known = all(name in latest for name in ("round", "identity", "traffic", "seconds", "pace"))
        whole = known and latest["format"] == FORMAT and hashlib.sha256(blob).hexdigest() == latest["sha256"]
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise DamagedCheckpoint(f"The checkpoint in {folder} cannot be read ({problem}); start anew.") from problem
    if not whole:
        raise DamagedCheckpoint(
            f"The checkpoint {folder / latest['file']} is damaged: it is not what was written, by its digest; start "
            "anew with another --out folder."
        )
    return Checkpoint(latest["round"], decode(blob), latest)


def require_same(saved: Mapping[str, Any], now: Mapping[str, Any], folder: Path) -> None:
    """Refuse to go on with a run that is not the one that stopped, and name what differs."""
    for key in sorted(saved.keys() | now.keys()):
        if saved.get(key) != now.get(key):
            raise BadInput(
                f"Cannot resume {folder}: its {key} was {saved.get(key)!r}, and now it is {now.get(key)!r}; "
                "resume with the same settings, or start anew in another folder."
            )


def write_atomically(path: Path, blob: bytes) -> None:
    """The file is there whole, or as it was before."""
    part = path.with_name(path.name + ".part")
    with open(part, "wb") as file:
        file.write(blob)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
