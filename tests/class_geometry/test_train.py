"""`train`: the same run again, also after SIGKILL; checkpoints; objectives; what it must refuse."""

import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from initscope.class_geometry import SMALL_CNN, train
from initscope.class_geometry.augmentation import Augmentation
from initscope.class_geometry.objectives import random_triplets
from initscope.data import load
from initscope.errors import InputError
from initscope.models import load_model

CNN = "conv3x3x8:zeros-bn-relu-maxpool2-conv3x3x16:zeros-bn-relu-dropout0.2-flatten-dense10"


@pytest.fixture(scope="module")
def digits():
    return load("digits")[::3]


def network():
    return load_model(CNN, input_shape=(1, 8, 8), seed=3)


def run(digits, model=None, **options):
    options = {"epochs": 4, "batch": 64, "learning_rate": 0.3, "shift": 1} | options
    return train(model or network(), digits, **options)


SCRIPT = """
import os, signal, sys
import torch
from initscope.models import training_loop
from initscope.class_geometry import supervised
from initscope.data import load
from initscope.models import load_model

torch.set_num_threads(1)
model, digits = load_model("CNN", input_shape=(1, 8, 8), seed=3), load("digits")[::3]
step, save = training_loop.Loop.step, torch.save

def dying(function, left):
    def counted(*args, **kwargs):
        nonlocal left
        left -= 1
        if left < 0:
            if function is save:  # in the middle of a file
                open(args[1], "wb").write(b"half of a file")
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)
    return counted

def start(out, step=step, save=save):
    if child := os.fork():  # a process of its own, without importing everything again
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    training_loop.Loop.step, torch.save = step, save
    options = {"epochs": 4, "batch": 64, "learning_rate": 0.3, "shift": 1, "stop_at_errors": (0.6, 0.001)}
    supervised.train(model, digits, out=out, **options)
    os._exit(0)

killed, whole, moment = sys.argv[1], sys.argv[2], int(sys.argv[3])
print(start(killed, step=dying(step, moment)), start(killed, save=dying(save, 0)), start(killed), start(whole))
"""


def test_sigkill_at_any_moment_changes_nothing(tmp_path):
    """Killed at a random step after the first epoch, and again in the middle of writing the state."""
    moment = random.randrange(9, 36)  # nine steps an epoch, four epochs
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    arguments = [sys.executable, "-c", SCRIPT.replace("CNN", CNN), str(killed), str(whole), str(moment)]
    ended = subprocess.run(arguments, timeout=300, capture_output=True, text=True)
    assert ended.stdout.split() == [str(-signal.SIGKILL)] * 2 + ["0"] * 2, ended.stderr
    for name in ("error-60.pt", "state.pt"):
        assert same(torch.load(killed / name), torch.load(whole / name), str(killed), str(whole)), f"step {moment}"
    assert [path.name for path in sorted(killed.iterdir())] == ["error-60.pt", "state.pt"]


def same(a, b, folder_a="", folder_b=""):
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key], folder_a, folder_b) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y, folder_a, folder_b) for x, y in zip(a, b))
    return str(a).replace(folder_a, "") == str(b).replace(folder_b, "")


def test_learns_and_repeats(digits):
    first, second, other = run(digits), run(digits), run(digits, seed=1)
    assert first == second
    assert first != other
    assert first.test_error < 0.2
    assert len(first.table()) == 4


def test_a_finished_run_is_not_run_again(digits, tmp_path):
    done, again = (run(digits, out=tmp_path, epochs=1) for _ in range(2))
    assert done == again


def test_stops_when_all_errors_are_reached(digits, tmp_path):
    model = network()
    done = run(digits, model, stop_at_errors=(0.3, 0.5), out=tmp_path, epochs=20, evaluations=2)
    assert [mark.target for mark in done.checkpoints] == [0.5, 0.3]
    assert done.missed == ()
    assert len(done.history) < 40
    for mark in done.checkpoints:
        assert mark.test_error <= mark.target
        assert all(row.test_error > mark.target for row in done.history if row.epoch < mark.epoch)
    loaded = load_model(CNN, weights=Path(done.checkpoints[-1].file), input_shape=(1, 8, 8))
    assert same(loaded.state_dict(), model.state_dict())
    assert done.plot().get_ylabel() == "test error"


def test_evaluated_at_the_end_only(digits):
    """The same run, tested once."""
    every, once = (run(digits, epochs=2, evaluations=evaluations) for evaluations in (1, 0))
    assert len(once.history) == 1
    assert once.test_error == every.test_error


def test_another_run_in_the_same_folder_is_refused(digits, tmp_path):
    run(digits, out=tmp_path, epochs=1)
    with pytest.raises(InputError, match="differs in seed"):
        run(digits, out=tmp_path, epochs=1, seed=7)
    with pytest.raises(InputError, match="differs in starting weights"):
        run(digits, load_model(CNN, input_shape=(1, 8, 8), seed=4), out=tmp_path, epochs=1)


def test_another_activation_or_loss_in_the_same_folder_is_refused(digits, tmp_path):
    """Neither shows in the weights: a run with Tanh went on from the state of one with ReLU."""
    for activation, expected in (("relu", None), ("tanh", "differs in model")):
        model = load_model(CNN.replace("relu", activation), input_shape=(1, 8, 8), seed=3)
        if expected is None:
            run(digits, model, out=tmp_path / "a", epochs=1)
            continue
        with pytest.raises(InputError, match=expected):
            run(digits, model, out=tmp_path / "a", epochs=1)

    for loss, expected in (
        (lambda outputs, labels: outputs.square().mean(), None),
        (lambda outputs, labels: outputs.square().mean(), None),
        (lambda outputs, labels: outputs.abs().mean(), "differs in objective"),
    ):
        if expected is None:
            run(digits, out=tmp_path / "b", epochs=1, objective=loss)
            continue
        with pytest.raises(InputError, match=expected):
            run(digits, out=tmp_path / "b", epochs=1, objective=loss)


@pytest.mark.parametrize("objective", ["triplet", "contrastive", "cross-entropy+triplet", "cross-entropy+contrastive"])
def test_metric_objectives_learn_classes(digits, objective):
    """Chance is .9."""
    done = run(digits, objective=objective, epochs=8, optimizer="adam", learning_rate=0.01, shift=0)
    assert done.test_error < 0.35


def test_a_loss_of_the_callers_own(digits):
    seen = []

    def loss(embeddings, labels):
        seen.append((tuple(embeddings.shape), int(labels.max())))
        return torch.nn.functional.cross_entropy(embeddings, labels)

    assert run(digits, objective=loss, epochs=2).test_error < 0.5
    assert seen[0] == ((64, 10), 9)


def test_losses_of_pytorch_metric_learning(digits):
    losses = pytest.importorskip("pytorch_metric_learning.losses")
    done = run(digits, objective=losses.SupConLoss(), epochs=8, optimizer="adam", learning_rate=0.01, shift=0)
    assert done.test_error < 0.35


def test_unlabelled_samples_count_in_metric_criteria_only(digits):
    """Cross-entropy with most labels hidden is the run without these samples; with a criterion all of them are seen."""
    labels = np.where(np.arange(len(digits)) < 200, digits.labels, -1)
    test = (digits.images[-100:], digits.labels[-100:])
    hidden = train(network(), digits.images, labels, test=test, epochs=2, batch=64)
    without = train(network(), digits.images[:200], labels[:200], test=test, epochs=2, batch=64)
    assert hidden == without
    both = train(
        network(), digits.images, labels, test=test, epochs=2, batch=64, objective="cross-entropy+triplet", shift=1
    )
    assert both.history[0].step == -(-len(digits) // 64)


def test_held_out_samples_are_not_trained_on(digits):
    """Labels of the held-out tenth do not reach the weights."""
    from initscope._utils.randomness import generator

    model, other = network(), network()
    held = generator(0, "held-out tenth").permutation(len(digits))[: len(digits) // 10]
    wrong = digits.labels.copy()
    wrong[held] = (wrong[held] + 1) % 10
    run(digits, model, epochs=1)
    train(other, digits.images, wrong, epochs=1, batch=64, learning_rate=0.3, shift=1)
    assert same(model.state_dict(), other.state_dict())


def test_augmentation_moves_and_mirrors():
    images = torch.arange(2 * 3 * 6 * 6.0).reshape(2, 3, 6, 6)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        moved = Augmentation(images.shape, flip=False, shift=2)(images.repeat(40, 1, 1, 1))
        mirrored = Augmentation(images.shape, flip=True, shift=0)(images.repeat(40, 1, 1, 1))
    padded = np.pad(images.numpy(), [(0, 0), (0, 0), (2, 2), (2, 2)], mode="reflect")
    places = set()
    for number, image in enumerate(moved.numpy()):
        fits = [
            (top, left)
            for top in range(5)
            for left in range(5)
            if (padded[number % 2, :, top : top + 6, left : left + 6] == image).all()
        ]
        assert len(fits) == 1
        places |= set(fits)
    assert len(places) > 20
    flipped = sum(torch.equal(image, images[number % 2].flip(2)) for number, image in enumerate(mirrored))
    kept = sum(torch.equal(image, images[number % 2]) for number, image in enumerate(mirrored))
    assert flipped + kept == 80
    assert 20 < kept < 60


def test_random_triplets_of_a_batch():
    classes = torch.tensor([0, 0, 1, 1, 1, 2])
    anchor, positive, negative = random_triplets(classes)
    assert anchor.tolist() == [0, 1, 2, 3, 4]
    assert (classes[anchor] == classes[positive]).all()
    assert (anchor != positive).all()
    assert (classes[anchor] != classes[negative]).all()
    assert not len(random_triplets(torch.zeros(3))[0])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"objective": "hinge"}, "objective = 'hinge' is unknown"),
        ({"optimizer": "lion"}, "optimizer = 'lion' is unknown"),
        ({"stop_at_errors": (25,)}, "stop_at_errors = 25"),
        ({"shift": 8}, "shift = 8 must be below"),
        ({"batch": 1}, "batch = 1"),
        ({"test": (np.zeros((2, 1, 8, 8)), ["x", "y"])}, "not trained on: x, y"),
    ],
)
def test_options_that_cannot_be_used(digits, options, says):
    with pytest.raises(InputError, match=says):
        run(digits, **{"epochs": 1} | options)


def test_divergence_is_said(digits):
    dense = load_model("dense30-relu*2-dense10", input_shape=(1, 8, 8))
    with pytest.raises(InputError, match="training diverged"):
        run(digits, dense, learning_rate=1e3 - 1)


def test_labels_that_cannot_be_used(digits):
    with pytest.raises(InputError, match="at least two"):
        train(network(), digits.images, np.zeros(len(digits)))
    with pytest.raises(InputError, match="one label for each image"):
        train(network(), digits.images, digits.labels[:-1])
    with pytest.raises(InputError, match="not images"):
        train(torch.nn.Linear(64, 10), digits.images.reshape(len(digits), -1), digits.labels, flip=True)


def test_the_small_cnn_is_for_cifar():
    model = load_model(SMALL_CNN, input_shape=(3, 32, 32))
    assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
