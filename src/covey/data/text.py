"""Next-character prediction from the texts of roles, a role per user, as in McMahan et al. (2017).

A character is a number: 0 is the end of a line, 1 … 95 are the printable ASCII characters from the blank on. The first
four fifths of a role's text are for training, the rest for testing: windows are cut within each part, so none crosses.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from covey.errors import BadInput

SYMBOLS = 96
WINDOW = 80  # characters that the model sees
STRIDE = 8  # from one window to the next

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def encode(text: Bytes) -> Bytes:
    """ASCII bytes -> 0 … 95; what is neither printable nor the end of a line becomes a blank."""
    codes = text.astype(np.int16) - 31
    codes[text == ord("\n")] = 0
    codes[(codes < 0) | (codes >= SYMBOLS)] = 1
    return codes.astype(np.uint8)


def role_windows(
    text: Bytes, ends: np.ndarray[Any, Any], window: int = WINDOW, stride: int = STRIDE, test_fraction: float = 0.2
) -> dict[str, np.ndarray[Any, Any]]:
    """x uint8 [n, window], the character after each window as y, and its role as user; x_train … user_test.

    Roles whose test part is shorter than a window and the character after it are left out.
    """
    if len(ends) == 0 or int(ends[-1]) != len(text) or (np.diff(ends) < 0).any():
        raise BadInput("The ends of the roles do not fit the text: they must ascend, and the last must be its length.")
    begins = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    cuts = begins + np.floor((ends - begins) * (1 - test_fraction)).astype(np.int64)
    roles = np.flatnonzero((ends - cuts > window) & (cuts - begins > window))
    codes = encode(text)
    found: dict[str, np.ndarray[Any, Any]] = {}
    for part, low, high in (("train", begins, cuts), ("test", cuts, ends)):
        starts = [np.arange(low[r], high[r] - window, stride) for r in roles]
        at = np.concatenate(starts) if starts else np.zeros(0, np.int64)
        found[f"x_{part}"] = np.lib.stride_tricks.sliding_window_view(codes, window)[at]
        found[f"y_{part}"] = codes[at + window]
        found[f"user_{part}"] = np.repeat(np.arange(len(roles)), [len(s) for s in starts])
    return found
