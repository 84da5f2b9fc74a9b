"""Kernels of ReLU networks written out with all covariances between positions, for comparison."""

import numpy as np
import torch
from torch import nn


def relu_duals(a, b, k):
    """E R(X)R(Y) and E R'(X)R'(Y) of variances a, b and covariance k [Cho, Saul 2009]."""
    size = np.sqrt(a * b)
    angle = np.arccos(np.clip(k / size, -1, 1))
    return size / (2 * np.pi) * (np.sin(angle) + (np.pi - angle) * np.cos(angle)), 0.5 - angle / (2 * np.pi)


def by_hand(images, layers):
    """NNGP and NTK with all covariances between positions: k[i, j, p, q], weights as matrices that average over taps.

    ``layers``: (gain, bias variance, matrix [positions, taps, inputs] or None for pooling all, ReLU behind).
    """
    k = np.einsum("icp,jcq->ijpq", images, images)
    tangent = np.zeros_like(k)
    for gain, bias, taps, relu in layers:
        if taps is None:
            k, tangent = (each.mean(axis=(2, 3), keepdims=True) for each in (k, tangent))
        else:
            # one weight for each tap: only the same tap of both windows is correlated
            k, tangent = (gain * sum(tap @ each @ tap.T for tap in taps.swapaxes(0, 1)) for each in (k, tangent))
            k = k + bias
            tangent = tangent + k
        if relu:
            own = np.einsum("iipp->ip", k)
            k, slope = relu_duals(own[:, None, :, None], own[None, :, None, :], k)
            tangent = tangent * slope
    return k, tangent


def windows(size, kernel_size, stride=1, padding=0):
    """[outputs, taps, inputs] of zeros and ones, for square maps."""
    index = torch.arange(1.0, size * size + 1).reshape(1, 1, size, size)
    read = nn.functional.unfold(index, kernel_size, padding=padding, stride=stride)[0].long().numpy() - 1
    taps = np.zeros((read.shape[1], read.shape[0], size * size))
    for tap, places in enumerate(read):
        for output, place in enumerate(places):
            if place >= 0:
                taps[output, tap, place] = 1
    return taps
