"""Statements about norms and gradients, found another way."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import torch
from scipy import integrate, optimize, stats
from theorems.witness import Witness, drawn, share


def exponential_mean(rate, keep, moment=0):
    """E[g^(2·moment) exp(rate · z g²)] of a standard normal g under a mask z that is 1 with probability ``keep``."""

    def kept(x):
        return x ** (2 * moment) * math.exp(rate * x * x - x * x / 2) / math.sqrt(2 * math.pi)

    masked = 1.0 if moment == 0 else 0.0
    return keep * integrate.quad(kept, -np.inf, np.inf, epsabs=1e-13, epsrel=1e-12)[0] + (1 - keep) * masked


@cache
def chernoff_rate(eps):
    """Exponent of lemma 2 from Chernoff's inequality for a sum of R(g)², by quadrature.

    Its parameter is the one that is best without a ReLU: the one that gives g² the mean 1 + ε. A unit's R(g)² has
    E exp(t R(g)²) = E exp(t z g²), z a fair coin, and must exceed (1 + ε)/2 on average.
    """
    tilt = optimize.brentq(
        lambda t: exponential_mean(t, 1.0, moment=1) / exponential_mean(t, 1.0) - 1 - eps, 0.0, 0.4, xtol=1e-14
    )
    return tilt * (1 + eps) / 2 - math.log(exponential_mean(tilt, 0.5))


TAILS = ("below", "above")


def union(width, eps, events):
    """Chernoff's bound of one event, once for every event."""
    return sum(math.exp(-width * chernoff_rate(eps)) for _ in events)


def squared_ratios(width, draws, seed):
    """‖R(Wu)‖²/‖u‖² of a drawn layer: χ² with as many degrees as units are active, times 2/width."""
    rng = np.random.default_rng(seed)
    active = rng.binomial(width, 0.5, draws)
    return 2 / width * np.where(active > 0, rng.chisquare(np.maximum(active, 1)), 0.0)


def failure(width, eps):
    """P(|ratio - 1| > eps) of one layer as a mixture of χ² laws."""
    counts = np.arange(1, width + 1)
    weights = stats.binom.pmf(counts, width, 0.5)
    low = weights @ stats.chi2.cdf((1 - eps) * width / 2, counts) + 0.5**width
    return low + weights @ stats.chi2.sf((1 + eps) * width / 2, counts)


def relu_network(rng, sizes, variances, x):
    """Weights, and activations of every layer, of a drawn ReLU network."""
    weights, hidden = [], [x]
    for inputs, outputs, variance in zip(sizes, sizes[1:], variances):
        weights.append(rng.normal(scale=math.sqrt(variance), size=(outputs, inputs)))
        hidden.append(np.maximum(weights[-1] @ hidden[-1], 0))
    return weights, hidden


def norm_ratios(sizes, variances, draws, seed=0):
    """‖h‖/‖x‖ of every layer: ``[draws, layers]``."""
    rng, rows = np.random.default_rng(seed), []
    for _ in range(draws):
        x = rng.normal(size=sizes[0])
        hidden = relu_network(rng, sizes, variances, x)[1]
        rows.append([np.linalg.norm(h) / np.linalg.norm(x) for h in hidden[1:]])
    return np.array(rows)


def lemmas_1_and_4():
    rng, u = np.random.default_rng(0), np.array([0.6, 0.8, 0.0])
    means = []
    for keep, variance in ((0.5, 1 / 10), (0.25, 1 / 5), (0.5, 1 / 20)):
        products = rng.normal(scale=math.sqrt(variance), size=(20_000, 20, 3)) @ u
        kept = rng.random((20_000, 20)) < keep
        means.append((products**2 * kept).sum(axis=1))
    return drawn(np.transpose(means))


def norm_ratio():
    ratios = norm_ratios([5, 20, 30], [2 / 20, 2 / 30], 20_000)[:, 1]
    mean = drawn(ratios)
    squares = drawn((ratios - ratios.mean()) ** 2)
    return Witness([mean.value, math.sqrt(squares.value)], [mean.error, squares.error / 2 / math.sqrt(squares.value)])


def lemmas_2_and_5():
    width = next(m for m in itertools.count(1) if union(m, 0.1, TAILS) <= 0.05)
    return Witness([union(200, 0.5, TAILS), width])


def one_layer_law():
    return Witness([failure(50, 0.3), next(m for m in itertools.count(20) if failure(m, 0.3) <= 0.05)])


def best_chernoff():
    """P(S > a) ≤ min over t of E[e^(tS)] e^(-ta) for S a sum of R(g)², E[e^(tR²)] = ½ + ½(1 - 2t)^(-½)."""
    t = np.concatenate([np.linspace(-2, 0, 200_001), np.linspace(0, 0.49, 200_001)])
    moment = np.log(0.5 + 0.5 / np.sqrt(1 - 2 * t))
    up, down = (np.min((moment - t * (1 + sign * 0.1) / 2)[t >= 0 if sign > 0 else t <= 0]) for sign in (1, -1))
    width = next(m for m in itertools.count(1000) if math.exp(m * up) + math.exp(m * down) <= 0.05)
    return Witness(width, tolerance=3e-4)


def theorem_1():
    return Witness(sum(union(width, 0.5, itertools.product(range(10), TAILS)) for width in (300, 400)))


def deep_law():
    first, second = squared_ratios(20, 400_000, 0), squared_ratios(30, 400_000, 1)
    end = first * second
    leaves = (first < 0.7) | (first > 1.5) | (end < 0.5) | (end > 2)
    return share(np.transpose([(end < 0.5) | (end > 2), leaves]))


def grid_width(dim, eps, delta, layers=1):
    """Width at which lemma 2's bounds over all points of a grid and all layers add up to ``delta``, by bisection.

    With a third of ε for the points and the rest for what lies between them, the diagonal of a cell of the grid on
    [-1, 1]^d is at most ε/3 long, and its sum of coordinates at most √(ε/3). Each point has two tails; inner products
    of what lies between the points are at most as likely to fail as that, which doubles the number of events.
    """
    third, diagonal = eps / 3, np.ones(dim)
    side = min(third / np.linalg.norm(diagonal), math.sqrt(third) / np.linalg.norm(diagonal, 1))
    log_events = dim * math.log(np.ptp([-1.0, 1.0]) / side) + math.log(layers * len(TAILS) * 2)
    return optimize.brentq(
        lambda width: log_events - width * chernoff_rate(third) - math.log(delta), 1.0, 1e9, rtol=1e-12
    )


def lemma_3():
    """A band of squared norms within 1 ± ε is one of norms within √(1+ε) - 1, the nearer end."""
    return Witness([grid_width(10, eps, 0.05) for eps in (0.1, math.sqrt(1.1) - 1)], tolerance=4e-6)


def theorem_2():
    return Witness(grid_width(10, 0.1, 0.05, layers=5), tolerance=4e-6)


def gordon():
    """e_m is √(2/m) E‖g₊‖; its distance from 1 is far below the band, so 4,000 draws find it well enough."""

    def center(width):
        return np.sqrt(squared_ratios(width, 4000, 0)).mean()

    def half(width, mean_width, delta):
        return math.sqrt(2 / width) * (mean_width + math.sqrt(2 * math.log(2 / delta)))

    width = next(m for m in itertools.count(200) if center(m) - half(m, math.sqrt(10), 0.05) >= 0.5)
    each, low, high, mean_width = 0.1 / 3, 1.0, 1.0, 2.0
    for _ in range(2):
        bottom, top = (center(2000) + sign * half(2000, mean_width, each) for sign in (-1, 1))
        low, high = low * bottom, high * top
        mean_width = math.sqrt(2) * (mean_width + math.sqrt(2 * math.log(1 / each))) / bottom
    return Witness([width, low, high], [width * 0.005, 0.005, 0.005], tolerance=1e-3)


def proposition_1():
    counts = np.array([sum(signs) for signs in itertools.product((0, 1), repeat=6)])
    return Witness(np.bincount(counts) / 64)


def theorem_3():
    return Witness(
        union(1000, 0.5, itertools.product(range(5), range(10), ("forward", "backward"), TAILS)), tolerance=1e-8
    )


def back_to(weights, hidden, error):
    """Errors at every layer from the one at the last: eq. 20."""
    errors = [error]
    for weight, active in zip(weights[:0:-1], hidden[-2:0:-1]):
        errors.insert(0, (active > 0) * (weight.T @ errors[0]))
    return errors


def head_error(rng, hidden, classes):
    """Error at the last hidden layer under a softmax head of variance 2/classes and a random label."""
    head = rng.normal(scale=math.sqrt(2 / classes), size=(classes, len(hidden)))
    scores = np.exp(head @ hidden - np.max(head @ hidden))
    error = scores / scores.sum()
    error[rng.integers(classes)] -= 1
    return (hidden > 0) * (head.T @ error)


def equation_20():
    rng, sizes, rows = np.random.default_rng(0), [50, 60, 60, 60], []
    for _ in range(600):
        weights, hidden = relu_network(rng, sizes, [2 / 60] * 3, rng.normal(size=50))
        errors = back_to(weights, hidden, head_error(rng, hidden[-1], 20))
        rows.append([np.linalg.norm(error) / np.linalg.norm(errors[-1]) for error in errors])
    found = drawn(rows)
    # The example has 200 networks, this 600.
    return Witness(found.value, found.error * 2, tolerance=1e-6)


def equations_17_to_20():
    """The gradient of the first layer, by torch."""
    generator = torch.Generator().manual_seed(0)
    first, second, head = (torch.randn(4, 4, generator=generator) for _ in range(3))
    x = torch.rand(1, 4, generator=generator)
    first.requires_grad_()
    scores = torch.relu(torch.relu(x @ first.T) @ second.T) @ head.T
    torch.nn.functional.cross_entropy(scores, torch.tensor([1])).backward()
    norm = float(first.grad.norm())
    return Witness([1.0, norm, norm], tolerance=1e-5)


def fan_modes():
    """Squared norms behind the first of two layers, 30 → 40 → 80, and of errors one layer back, 80 → 40.

    Forwards and backwards under fan-out (variances 2/40, 2/80) and fan-in (2/30, 2/40), with independent masks.
    """
    rng, columns = np.random.default_rng(0), []
    for first, second in ((2 / 40, 2 / 80), (2 / 30, 2 / 40)):
        x, error = rng.normal(size=(2000, 30)), rng.normal(size=(2000, 80))
        active = rng.normal(scale=math.sqrt(first), size=(2000, 40)) * np.linalg.norm(x, axis=1, keepdims=True)
        back = rng.normal(scale=math.sqrt(second), size=(2000, 40)) * np.linalg.norm(error, axis=1, keepdims=True)
        columns.append((np.maximum(active, 0) ** 2).sum(axis=1) / (x**2).sum(axis=1))
        columns.append(((back * (active > 0)) ** 2).sum(axis=1) / (error**2).sum(axis=1))
    return drawn(np.transpose(columns))


def gradient_law():
    """Forward through layer 1, backward from 3 to 2: two independent ratios of layers of equal width."""
    ratio = squared_ratios(20, 400_000, 0) * squared_ratios(20, 400_000, 1)
    return share((ratio < 0.5) | (ratio > 2))


def footnote_1():
    rng, squares = np.random.default_rng(0), []
    for _ in range(2000):
        weights, hidden = relu_network(rng, [50] * 3, [2 / 50] * 2, rng.normal(size=50))
        errors = back_to(weights, hidden, head_error(rng, hidden[-1], 20))
        squares.append(np.sum(errors[0] ** 2) / np.sum(errors[-1] ** 2))
    mean = drawn(squares)
    ratio = squared_ratios(50, 400_000, 0)
    missed = share((ratio < 0.9**2) | (ratio > 1.1**2))
    # The example has 300 networks, this 2,000.
    return Witness([mean.value, missed.value], [mean.error * math.sqrt(1 + 2000 / 300), missed.error])


def lemma_6():
    """⟨Wu, Wv⟩ is a quarter of ‖W(u+v)‖² - ‖W(u-v)‖²: two norms with two tails each.

    The best exponent of the upper tail of χ² is ε²/4 - ε³/6 + …, the lemma's (ε² - ε³)/4: mε³/12 = 1.3 % apart here.
    """
    width, eps = 20_000, 0.02
    rates = optimize.minimize_scalar(
        lambda t: math.log(exponential_mean(t, 1.0)) - t * (1 + eps),
        bounds=(0.0, 0.4),
        method="bounded",
        options={"xatol": 1e-10},
    )
    # m units of χ²₁ must exceed (1 + ε)m on average; events: two sums of vectors, two tails each
    return Witness(4 * math.exp(width * rates.fun), tolerance=0.02)


def lemma_7():
    return Witness(union(500, 0.3, itertools.product(("u + v", "u - v"), TAILS)))


def figure_1():
    """The example has one network of each law; the mean over its samples scatters by less than half of one sample's.

    One layer's ratio has the standard deviation √(5/4m) to first order.
    """
    means = [
        norm_ratios([40, 1200, 1200], variances, 10).mean(axis=0)
        for variances in ([2 / 1200] * 2, [2 / 1240, 2 / 2400])
    ]
    return Witness(means, 0.5 * np.array(means) * np.sqrt(1.25 / 1200 * np.array([1, 2])))


def section_3():
    """He fan-in, He fan-out, Glorot, LeCun through widths 60 and 120 from 50 inputs."""
    laws = ([2 / 50, 2 / 60], [2 / 60, 2 / 120], [2 / 110, 2 / 180], [1 / 50, 1 / 60])
    ratios = [norm_ratios([50, 60, 120], law, 400, seed)[:, 1] for seed, law in enumerate(laws)]
    found = drawn(np.transpose(ratios))
    # The example draws 150 networks, this 400.
    return Witness(found.value, found.error * math.sqrt(1 + 400 / 150))


def bisect(decreasing, low=1e-3, high=0.999):
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if decreasing(middle) > 0 else (low, middle)
    return low


def figure_2():
    lemma = bisect(lambda eps: union(200, eps, TAILS) - 0.05)
    return Witness([lemma, bisect(lambda eps: failure(200, eps) - 0.05)], tolerance=1e-6)


def figure_3():
    """Root mean square distance from 1 of ‖∂W‖/(‖δ‖‖x‖) over layers, with independent masks on the way back."""
    spreads, errors = [], []
    for variation in (1, 150):
        widths = np.random.default_rng(0).integers(200 - variation, 200 + variation, 6, endpoint=True)
        ratios = [squared_ratios(int(width), 20_000, seed) for seed, width in enumerate(widths)]
        rows = []
        for layer in range(6):
            forward = math.prod(ratios[:layer]) if layer else 1.0
            backward = math.prod(ratios[k] * widths[k] / widths[k + 1] for k in range(layer, 5)) if layer < 5 else 1.0
            rows.append((np.sqrt(forward * backward) - 1) ** 2)
        found = drawn(np.mean(rows, axis=0))
        spreads.append(math.sqrt(found.value))
        errors.append(found.error / 2 / math.sqrt(found.value))
    return Witness(spreads, errors)
