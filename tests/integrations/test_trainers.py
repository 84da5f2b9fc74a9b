"""The callbacks with the real trainers, where they are installed."""

import warnings

import pytest
import torch
from torch import nn

from initscope.integrations import hugging_face_callback, lightning_callback

# What these packages warn of, on their own import and on small machines, is not ours.
pytestmark = pytest.mark.filterwarnings("ignore")


def batches():
    inputs = torch.rand(64, 8, generator=torch.Generator().manual_seed(0))
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, inputs[:, :1] * 2), batch_size=32)


@pytest.fixture
def trainer_of(tmp_path):
    lightning = pytest.importorskip("pytorch_lightning")

    class Regression(lightning.LightningModule):
        def __init__(self, rate):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
            self.rate = rate

        def training_step(self, batch, _):
            return (self.net(batch[0]) - batch[1]).square().mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=self.rate)

    def train(callback, rate=0.01, epochs=3):
        logger = lightning.loggers.CSVLogger(tmp_path)
        trainer = lightning.Trainer(
            max_epochs=epochs, callbacks=[callback], logger=logger, enable_progress_bar=False, accelerator="cpu",
            enable_model_summary=False, enable_checkpointing=False, default_root_dir=tmp_path,
        )  # fmt: skip
        trainer.fit(Regression(rate), batches())
        return trainer

    return train


def test_lightning(trainer_of, tmp_path):
    callback = lightning_callback(module="net", pairs=16, out=tmp_path / "start.html")
    trainer = trainer_of(callback)
    assert callback.watch.report.healthy
    assert [row["epoch"] for row in callback.watch.rows] == [1, 2, 3]
    assert "initscope/healthy" in (tmp_path / "lightning_logs/version_0/metrics.csv").read_text().splitlines()[0]
    assert trainer.current_epoch == 3


def test_lightning_stops(trainer_of):
    """A rate that throws the weights far away: the first look after an epoch stops the training."""
    callback = lightning_callback(module="net", pairs=16, warn_on="", stop_on="error")
    assert trainer_of(callback, rate=1e3, epochs=9).current_epoch < 9
    assert callback.watch.stopped_by


def test_hugging_face(tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    config = transformers.BertConfig(
        vocab_size=32, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, num_labels=2
    )
    model = transformers.BertForSequenceClassification(config)
    words = torch.randint(0, 32, (32, 6), generator=torch.Generator().manual_seed(0))
    samples = [{"input_ids": row, "labels": int(row[0]) % 2} for row in words]
    callback = hugging_face_callback(pairs=8, warn_on="", log=[], out=tmp_path / "start.html")
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), num_train_epochs=2, per_device_train_batch_size=16, report_to=[], use_cpu=True,
        save_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers.Trainer(model=model, args=arguments, train_dataset=samples, callbacks=[callback]).train()
    assert (tmp_path / "start.html").is_file()
    assert [row["epoch"] for row in callback.watch.rows] == [1, 2]
    assert callback.watch.report.rows
