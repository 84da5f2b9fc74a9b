"""Models of other libraries are opened, with the real libraries: their own loss is used, and their bugs are found."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import initscope

pytestmark = pytest.mark.filterwarnings("ignore")
QUICK = {"pairs": 24, "prediction": False, "alternatives": False}


@pytest.fixture(scope="module")
def digits():
    data = initscope.data.load("digits").take(128)
    images = torch.as_tensor(data.images).flatten(1)
    return (images - images.mean()) / images.std(), torch.as_tensor(data.labels).long()


def mlp(*end):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10), *end)


def names(findings):
    return {finding.name for finding in findings}


@pytest.mark.parametrize("broken", [True, False])
def test_the_training_step_of_a_lightning_module_is_the_loss(digits, broken):
    lightning = pytest.importorskip("pytorch_lightning")

    class Classifier(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = mlp(nn.Softmax(1)) if broken else mlp()

        def forward(self, x):
            return self.net(x)

        def training_step(self, batch, index):
            inputs, labels = batch
            loss = F.cross_entropy(self(inputs), labels)
            self.log("loss", loss)
            return loss

    report = initscope.inspect(Classifier(), digits[0], targets=digits[1], **QUICK)
    assert report.facts.loss_name == "the training_step of the module"
    assert report.layers == 2
    assert ("loss-floor" in names(report.errors)) is broken
    assert (report.trial.outcome == "learns") is not broken


@pytest.mark.parametrize("broken", [True, False])
def test_the_loss_of_a_hugging_face_model_is_the_loss(broken):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    config = transformers.BertConfig(vocab_size=50, num_labels=4, hidden_dropout_prob=0.0, **sizes)
    model = transformers.BertForSequenceClassification(config)
    if broken:
        with torch.no_grad():
            model.classifier.weight.mul_(1e4)
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(1, 50, (64, 12), generator=generator)
    report = initscope.inspect(model, {"input_ids": ids, "labels": ids[:, 0] % 4}, **QUICK)
    assert report.facts.loss_name
    assert report.trial is not None
    assert report.trial.losses
    assert ("initial-loss" in names((*report.errors, *report.warnings))) is broken


def test_data_parallel_and_compiled_models_are_opened(digits):
    inner = mlp()
    for model in (nn.DataParallel(inner), torch.compile(inner)):
        report = initscope.inspect(model, digits[0], trial=False, **QUICK)
        assert report.layers == 2


def test_a_keras_model_on_the_torch_backend(digits, monkeypatch):
    """Keras is no dependency of the tests: where it is installed with torch as its backend, its layers are counted."""
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    keras = pytest.importorskip("keras", reason="Keras 3 is not installed")
    if keras.backend.backend() != "torch":
        pytest.skip("Keras runs on another backend")
    layers = keras.layers
    model = keras.Sequential([layers.Input((64,)), layers.Dense(32, activation="relu"), layers.Dense(10)])
    report = initscope.inspect(model, digits[0], targets=digits[1], **QUICK)
    assert report.layers == 2
    assert report.trial.outcome == "learns"
