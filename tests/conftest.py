"""What holds for every test."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Small tensors and two busy cores: one torch thread is faster and repeatable."""
    torch.set_num_threads(1)
