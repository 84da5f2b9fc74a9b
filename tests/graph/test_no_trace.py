"""Models that keep something between calls are as before, bit by bit; so is the process, in any thread, at any time."""

import copy
import os
import signal
import sys
import threading
import time
from contextlib import suppress

import numpy as np
import pytest
import torch
from stateful import CALLS, MODELS, Compiled, changed, inputs_of, process_state, state
from torch import nn

import initscope
from initscope.errors import InputError
from initscope.graph import bind, trace
from initscope.graph.borrowing import borrowed, unwrapped
from initscope.graph.interrupts import uninterrupted
from initscope.measurement import observe

# All calls on all models: `python tests/attacks no_trace`. Here each call, and each model, at least once.
PAIRS = [(name, list(CALLS)[index % len(CALLS)]) for index, name in enumerate(MODELS)]
PAIRS += [("running mean", "inspect"), ("embedding with max_norm", "measure as it is"), ("clamped weights", "observe")]
PAIRS += [("spectral norm", "inspect"), ("spectral norm", "predict"), ("running mean, branching", "observe")]
PAIRS += [
    (name, call)
    for name in ("odd attributes", "slots", "sets globals", "shared buffers", "batch norm and dropout")
    for call in CALLS
]
PAIRS = list(dict.fromkeys(PAIRS))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "call"), PAIRS)
def test_every_call_leaves_every_model_as_it_was(name, call):
    torch.manual_seed(0)
    model, x = MODELS[name](), inputs_of(name)
    before = state(model)
    with suppress(InputError):  # what is refused leaves no trace either
        CALLS[call](model, x)
    assert changed(before, state(model)) == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", CALLS)
def test_tensors_can_be_resized_as_before(call):
    """A look at a tensor through NumPy would forbid it for good."""
    torch.manual_seed(0)
    model, x = MODELS["odd buffers"](), inputs_of("odd buffers")
    held = [*model.parameters(), *model.buffers()]
    assert all(tensor.untyped_storage().resizable() for tensor in held)
    CALLS[call](model, x)
    assert all(tensor.untyped_storage().resizable() for tensor in held)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", ["batch norm and dropout", "instance norm", "running mean, detached", "clamped data"])
def test_a_backward_pass_that_was_begun_before_still_runs(name, call):
    """Gradients are those of a model that was never looked at: no buffer and no weight counts as written since."""
    torch.manual_seed(0)
    model, x = MODELS[name](), inputs_of(name).requires_grad_()
    twin = copy.deepcopy(model)
    (expected,) = torch.autograd.grad(_seeded(twin, x), x)
    loss = _seeded(model, x)
    with suppress(InputError):
        CALLS[call](model, x.detach())
    (gradient,) = torch.autograd.grad(loss, x)
    assert torch.equal(gradient, expected)


def _seeded(model, x):
    torch.manual_seed(1)
    return model(x).square().sum()


@pytest.mark.filterwarnings("ignore")
def test_the_tensors_of_a_model_are_not_written_inside():
    """Inside, modules hold copies of their buffers; the very same tensors are there again afterwards."""
    model, x = MODELS["batch norm and dropout"](), inputs_of("batch norm and dropout")
    before = dict(model.named_buffers())
    versions = [value._version for value in before.values()]
    with borrowed(model):
        assert not any(value is before[name] for name, value in model.named_buffers())
        model(x)
        assert float(model[1].num_batches_tracked) == 1
        assert float(before["1.num_batches_tracked"]) == 0
        with borrowed(model):  # an inner context leaves the buffers as it found them
            model.eval()
            model.train()
            model(x)
    assert all(value is before[name] for name, value in model.named_buffers())
    assert [value._version for value in before.values()] == versions


def test_inner_contexts_put_modes_back_and_save_nothing(monkeypatch):
    model, x = MODELS["batch norm and dropout"](), inputs_of("batch norm and dropout")
    with borrowed(model):
        monkeypatch.setattr("initscope.graph.borrowing.SavedState", None)  # it would fail
        model[1].eval()
        with borrowed(model):
            model.train()
            model(x)
        assert [module.training for module in model] == [True, False, True, True, True]
        assert float(model[1].num_batches_tracked) == 0


def test_data_parallel_models_are_looked_into():
    torch.manual_seed(0)
    layers, x = MODELS["batch norm and dropout"]().eval(), inputs_of("batch norm and dropout")
    wrapped = nn.DataParallel(layers)
    assert unwrapped(nn.DataParallel(Compiled(layers))) is layers
    for name, call in CALLS.items():
        inside, plain = call(wrapped, x), call(layers, x)
        if hasattr(plain, "rows"):
            assert [row.layer for row in inside.rows] == [row.layer for row in plain.rows], name
            assert len(plain.rows) > 2


@pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="torch was built without gloo")
@pytest.mark.filterwarnings("ignore")
def test_distributed_models_are_looked_into(tmp_path):
    """A group of this process alone; the store is a file, so that no port is needed."""
    torch.manual_seed(0)
    layers, x = MODELS["batch norm and dropout"](), inputs_of("batch norm and dropout")
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        wrapped = nn.parallel.DistributedDataParallel(layers)
        before = state(wrapped)
        inside = initscope.inspect(wrapped, x, pairs=4, alternatives=False)
        assert changed(before, state(wrapped)) == []
        wrapped(x).sum().backward()
    finally:
        torch.distributed.destroy_process_group()
    plain = initscope.inspect(layers, x, pairs=4, alternatives=False)
    assert [row.layer for row in inside.rows] == [row.layer for row in plain.rows]
    assert len(plain.rows) > 2


def test_a_running_statistic_can_be_copied_and_trained_after_an_inspection():
    model, x = MODELS["running mean"](), inputs_of("running mean")
    report = initscope.inspect(model, x, pairs=4, alternatives=False)
    assert np.isfinite(report.observation.gradient_ratio[-1]).all()
    copy.deepcopy(model)(x).sum().backward()


class Statistics(nn.Module):
    """Weights behind values that are detached, and a buffer written from values without gradients."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 4)
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x):
        h = self.first(x)
        with torch.no_grad():
            self.mean.copy_((h * 2).mean(0))
        return self.second(h.detach().relu()) + h.sum(1, keepdim=True)


def test_gradients_of_weights_behind_detached_values_are_those_of_training():
    """Against autograd on single samples: behind ``detach`` there is a gradient, before it none that came through."""
    torch.manual_seed(1)
    model, x = Statistics(), torch.randn(8, 6)
    seen = observe(model, x, pairs=4, shuffle=False, loss=lambda output, targets: output.sum(1), targets=torch.zeros(8))
    for name, layer in (("first", model.first), ("second", model.second)):
        index = [row.layer for row in seen.rows].index(name)
        expected = []
        for sample in x[:4]:
            output = model(sample[None])
            (gradient,) = torch.autograd.grad(output.sum(), layer.weight)
            expected.append(float(gradient.norm() / (2 * sample.norm())))  # the loss's own gradient: √4
        np.testing.assert_allclose(seen.gradient_ratio[index], expected, rtol=1e-5)


def test_a_trace_keeps_regions_without_gradients():
    model, x = MODELS["running mean"](), inputs_of("running mean")
    traced, modes = trace(model, x), {}
    assert traced.fallback == ""
    with borrowed(model), torch.enable_grad():
        traced.execute(bind(model, x), lambda step, *call: modes.update({step.name: torch.is_grad_enabled()}))
    assert [name for name, enabled in modes.items() if not enabled] == ["mean", "lerp"]
    assert len(modes) == 7


def test_calls_under_autocast_and_inference_mode_give_the_same_numbers():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4)), torch.randn(8, 6)

    def numbers():
        seen = observe(model, torch.randn(8, 6, generator=torch.Generator().manual_seed(1)), pairs=4)
        return [seen.cosine, seen.gradient_ratio, initscope.predict(model, x[:4], x[4:]).cosine]

    plain, before = numbers(), process_state()
    with torch.inference_mode():
        inferred = numbers()
        assert torch.is_inference_mode_enabled()
    with torch.autocast("cpu", torch.bfloat16):
        cast = numbers()
        assert torch.is_autocast_enabled("cpu")
    for expected, one, other in zip(plain, inferred, cast, strict=True):
        assert np.array_equal(expected, one, equal_nan=True)
        assert np.array_equal(expected, other, equal_nan=True)
    assert changed(before, process_state()) == []


def test_a_model_built_in_inference_mode_runs_and_says_why_it_has_no_gradients():
    torch.manual_seed(0)
    with torch.inference_mode():
        model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))
    seen = observe(model, torch.randn(8, 6), pairs=4)
    assert np.isfinite(seen.cosine).all()
    assert "nference" in seen.rows[1].note
    assert np.isfinite(initscope.measure(model, torch.randn(3, 6), torch.randn(3, 6), draws=0).cosine).all()


def test_weights_that_are_too_large_to_be_copied_are_told_of(monkeypatch):
    monkeypatch.setattr("initscope.graph.borrowing._COPIED", 0)
    with pytest.raises(InputError, match=r"changes its own weights \(first.weight\)"):
        observe(MODELS["clamped weights"](), torch.randn(8, 6), pairs=4)
    observe(MODELS["running mean"](), torch.randn(8, 6), pairs=4)


def test_an_unrelated_model_runs_in_another_thread_while_one_is_traced():
    """The patches of tracing are there, and another thread calls modules and reads parameters through them."""
    other, x = nn.Sequential(nn.Linear(6, 8), nn.ReLU()), torch.randn(2, 6)
    expected, found = other(x), []

    class Waits(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(6, 4)

        def forward(self, x):
            thread = threading.Thread(target=lambda: found.append((other(x_other), other[0].weight)))
            thread.start()
            thread.join()
            return self.fc(x)

    x_other = x
    traced = trace(Waits(), torch.randn(3, 6))
    assert [step.name for step in traced.nodes] == ["input", "fc"]
    assert torch.equal(found[0][0], expected)
    assert found[0][1] is other[0].weight


@pytest.mark.parametrize("name", ["running mean", "running mean, branching"])
def test_two_threads_observe_two_models_as_one_does(name):
    x = inputs_of(name)
    models = [MODELS[name](), MODELS[name]()]
    expected, wrong = [observe(model, x, pairs=4).cosine for model in models], []

    def repeat(index):
        for _ in range(4):
            found = observe(models[index], x, pairs=4).cosine
            wrong.extend([index] if not np.array_equal(found, expected[index], equal_nan=True) else [])

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=repeat, args=(index,)) for index in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(interval)
    assert wrong == []


def test_a_model_that_is_measured_refuses_to_be_called_in_another_thread():
    model, x, said = nn.Sequential(nn.Linear(6, 4)), torch.randn(2, 6), []

    def call():
        try:
            model(x)
        except InputError as error:
            said.append(str(error))

    with borrowed(model):
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        model(x)
    model(x)
    assert "being measured in another thread" in said[0]
    assert not model._forward_pre_hooks


@pytest.fixture
def interruptible():
    """Let SIGINT raise KeyboardInterrupt, also where the tests run in the background and it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("name", ["running mean", "running mean, branching", "clamped data"])
@pytest.mark.usefixtures("interruptible")
def test_interrupts_in_the_middle_of_a_run_leave_nothing(name, times):
    """The second comes while the first is on its way; 2,000 of them: `python tests/attacks interrupts 2000`."""
    model, x = MODELS[name](), inputs_of(name)
    before = state(model)
    data = [x, x]

    class Interrupts(list):
        def __iter__(self):
            yield x
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
            yield x

    with pytest.raises(KeyboardInterrupt):
        observe(model, Interrupts(data), pairs=8)
    assert changed(before, state(model)) == []


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_waits_until_what_is_begun_is_finished():
    model, steps = nn.Linear(2, 2), []

    @uninterrupted
    def protected():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        steps.append("finished")

    def run():
        with borrowed(model):
            protected()
            steps.append("left")

    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run()
    assert steps == ["finished", "left"]
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_while_torch_leaves_a_context_comes_a_moment_later():
    """Struck at once, ``torch.overrides`` would put a mode back whenever its generator is collected."""
    from initscope.graph.interrupts import _handle

    model, came = nn.Linear(2, 2), []

    def run():
        with borrowed(model):
            try:
                _handle(signal.SIGINT, Frame())
                came.append("later")
                for _ in range(1000):
                    time.sleep(0.001)
            finally:
                came.append("left")

    class Code:
        co_filename = torch.overrides.__file__

    class Frame:
        f_code, f_back = Code(), None

    with pytest.raises(KeyboardInterrupt):
        run()
    assert came == ["later", "left"]


def test_handlers_of_others_are_left_alone():
    seen = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        with borrowed(nn.Linear(2, 2)):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
        assert seen == [signal.SIGINT]
        with borrowed(nn.Linear(2, 2)):
            mine = signal.signal(signal.SIGINT, signal.default_int_handler)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert mine is not before
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("at", ["__enter__", "__exit__"])
@pytest.mark.usefixtures("interruptible")
def test_no_interrupt_is_left_for_the_next_call(monkeypatch, at):
    """A second Ctrl-C, while the first one ends a call, belongs to that call: the next one must not be struck by it."""
    from initscope.graph.borrowing import _Loan

    def struck(method):
        def strikes(loan):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
            return method(loan)

        return strikes

    def fails(loan):
        give_back(loan)
        raise KeyboardInterrupt

    give_back = _Loan.give_back
    with monkeypatch.context() as patch:
        if at == "__enter__":
            patch.setattr(_Loan, "refuse_other_threads", struck(_Loan.refuse_other_threads))
            patch.setattr(_Loan, "give_back", struck(_Loan.give_back))
        else:
            patch.setattr(_Loan, "give_back", struck(fails))
        with pytest.raises(KeyboardInterrupt), borrowed(nn.Linear(2, 2)):
            pass
    try:
        with borrowed(nn.Linear(2, 2)):
            pass
    except KeyboardInterrupt:
        pytest.fail("the next call was interrupted")
