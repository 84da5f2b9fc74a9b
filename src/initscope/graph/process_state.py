"""Process state that a model's forward may change (random states, modes, defaults, threads), and how it is restored."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch.overrides import _pop_mode

__all__ = ["keep_modes", "keep_random_states"]


def keep_modes() -> Callable[[], None]:
    """Leave inference mode and autocast.

    Returns
    -------
    callable
        Restores these, and the global settings that forward may change: gradient mode, modes of torch functions,
        default dtype, deterministic algorithms, anomaly mode, precision of products.
    """
    devices = [name for name in ("cpu", "cuda", "mps", "xpu") if torch.is_autocast_enabled(name)]
    modes, gradients = torch._C._len_torch_function_stack(), torch.is_grad_enabled()
    outside = torch._C._InferenceMode(False) if torch.is_inference_mode_enabled() else None
    if outside is not None:
        outside.__enter__()  # type: ignore[no-untyped-call]
    for name in devices:
        torch.set_autocast_enabled(name, False)
    settings = _settings()

    def restore() -> None:
        while torch._C._len_torch_function_stack() > modes:  # an interrupt may have hindered a mode from leaving
            _pop_mode()  # type: ignore[no-untyped-call]
        if _settings() != settings:
            dtype, deterministic, warns, anomalies, checks, precision = settings
            torch.set_default_dtype(dtype)
            torch.use_deterministic_algorithms(deterministic, warn_only=warns)
            torch.autograd.set_detect_anomaly(anomalies, checks)
            torch.set_float32_matmul_precision(precision)
        for name in devices:
            torch.set_autocast_enabled(name, True)
        if outside is not None:
            outside.__exit__(None, None, None)
        torch._C._set_grad_enabled(gradients)

    return restore


def _settings() -> tuple[torch.dtype, bool, bool, bool, bool, str]:
    """Return defaults and switches of torch for the whole process."""
    return (
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.is_anomaly_enabled(),
        torch.is_anomaly_check_nan_enabled(),
        torch.get_float32_matmul_precision(),
    )


def keep_random_states(devices: Iterable[torch.device]) -> Callable[[], None]:
    """Remember the random states of torch, Python and NumPy.

    Parameters
    ----------
    devices : iterable of torch.device
        CUDA devices whose random states are included.

    Returns
    -------
    callable
        Puts the states back.
    """
    python_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002  (the state users may rely on)
    torch_state = torch.get_rng_state()
    cuda_states = {device: torch.cuda.get_rng_state(device) for device in devices}

    def restore() -> None:
        random.setstate(python_state)
        np.random.set_state(numpy_state)  # noqa: NPY002
        torch.set_rng_state(torch_state)
        for device, state in cuda_states.items():
            torch.cuda.set_rng_state(state, device)

    return restore
