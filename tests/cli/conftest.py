"""One thread: the models are tiny, and a loaded machine makes two threads wait for each other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    patch, before = pytest.MonkeyPatch(), torch.get_num_threads()
    patch.setenv("OMP_NUM_THREADS", "1")  # for subprocesses
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
    patch.undo()
