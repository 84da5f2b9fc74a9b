"""What outputs depend on: each problem, and next to it what looks like it and is meant."""

import torch
from called import Called
from torch import nn
from torch.nn import functional as F

import initscope


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).cumsum(dim=-1) / shape[-1] ** 0.5


def words(count=32, length=12, kinds=20, seed=0):
    text = 20 * torch.rand(count, length + 1, generator=torch.Generator().manual_seed(seed)) ** 2
    return text.long().clamp(max=kinds - 1)


def findings(model, data, **options):
    report = initscope.inspect(model, data, pairs=16, alternatives=False, prediction=False, **options)
    return {finding.name: finding for finding in report.findings}


def recurrent(*, batch_first):
    torch.manual_seed(0)
    return Called(
        lambda m, x: m.head(m.loop(x)[0][:, -1]), loop=nn.GRU(4, 16, batch_first=batch_first), head=nn.Linear(16, 3)
    )


def test_a_loop_along_the_samples_mixes_them_and_one_along_time_does_not():
    data = normal(32, 10, 4)
    found = findings(recurrent(batch_first=False), data)["samples-mixed"]
    assert (found.level, found.layer.partition(".")[0].partition(" ")[0]) == ("error", "loop")
    assert "samples-mixed" not in findings(recurrent(batch_first=True), data)


def test_a_softmax_over_the_batch_mixes_and_a_reshape_that_forgets_where_samples_are():
    def layers():
        return {"conv": nn.Conv2d(2, 8, 3), "head": nn.Linear(288, 5)}

    def turned(m, x):
        return m.head(F.relu(m.conv(x)).permute(1, 2, 3, 0).reshape(len(x), -1))

    torch.manual_seed(0)
    images = normal(32, 2, 8, 8)
    assert findings(Called(turned, **layers()), images)["samples-mixed"].layer == "reshape"
    plain = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 5))
    assert findings(nn.Sequential(plain, nn.LogSoftmax(0)), normal(32, 16))["samples-mixed"].layer == "1"
    assert "samples-mixed" not in findings(nn.Sequential(plain, nn.LogSoftmax(1)), normal(32, 16))


def test_statistics_of_the_batch_are_no_fault_and_similarities_of_all_samples_nothing_at_all():
    def spread(m, x):
        x = m.first(x)
        return m.head(torch.cat([x, x.std(0).mean().expand(len(x), 1)], 1))

    torch.manual_seed(0)
    found = findings(Called(spread, first=nn.Linear(16, 16), head=nn.Linear(17, 5)), normal(32, 16))
    assert "samples-mixed" not in found
    assert found["batch-statistics"].level == "info"
    similar = Called(lambda m, x: m.first(x) @ m.first(x).T, first=nn.Linear(16, 16))
    assert "samples-mixed" not in findings(similar, normal(32, 16))
    assert "samples-mixed" not in findings(nn.Sequential(nn.Linear(16, 9), nn.BatchNorm1d(9)), normal(32, 16))


def attention(*, causal, positions=True):
    torch.manual_seed(0)
    places = 0.5 * torch.randn(64, 16)

    def forward(m, ids):
        x = m.words(ids) + (places[: ids.shape[1]] if positions else 0)
        q, k, v = m.qkv(x).chunk(3, -1)
        return m.head(x + m.mix(F.scaled_dot_product_attention(q, k, v, is_causal=causal)))

    layers = {"qkv": nn.Linear(16, 48), "mix": nn.Linear(16, 16), "head": nn.Linear(16, 20)}
    return Called(forward, words=nn.Embedding(20, 16), **layers)


def cross_entropy(output, targets):
    return F.cross_entropy(output.flatten(0, 1), targets.flatten())


def test_a_language_model_without_a_mask_sees_its_targets():
    text = words()
    given = {"targets": text[:, 1:], "loss": cross_entropy}
    found = findings(attention(causal=False), text[:, :-1], **given)["future-tokens"]
    assert found.level == "error"
    assert found.layer in ("scaled_dot_product_attention", "mix")
    assert "future-tokens" not in findings(attention(causal=True), text[:, :-1], **given)
    tags = {"targets": text[:, :-1] % 5, "loss": cross_entropy}  # targets of another kind may see all words
    assert "future-tokens" not in findings(attention(causal=False), text[:, :-1], **tags)


def test_tokens_without_positions_are_a_warning():
    text = words()[:, :-1]
    assert findings(attention(causal=False, positions=False), text)["order-ignored"].level == "warning"
    for seen in (attention(causal=False), attention(causal=True, positions=False)):
        assert "order-ignored" not in findings(seen, text)


class Viewed(nn.Module):
    def __init__(self, moved):
        super().__init__()
        self.conv, self.head, self.moved = nn.Conv1d(3, 8, 3), nn.Linear(8, 4), moved

    def forward(self, x):
        x = x.transpose(1, 2) if self.moved else x.reshape(len(x), 3, 10)
        return self.head(F.relu(self.conv(x)).mean(2))


def test_a_view_that_is_meant_for_a_transpose_is_told():
    torch.manual_seed(0)
    data = torch.randn(32, 10, 3).cumsum(1)
    for moved in (False, True):
        report = initscope.inspect(Viewed(moved), data, pairs=16, alternatives=False, prediction=False)
        found = {finding.name: finding for finding in report.findings}
        assert ("axis-order" in found) != moved
        assert moved or "10 × 3 into 3 × 10" in found["axis-order"].message


def test_an_encoder_of_torch_without_batch_first_attends_to_other_samples():
    data = torch.randn(32, 6, 8, generator=torch.Generator().manual_seed(0)).cumsum(1)
    for first in (False, True):
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=first)
        model = nn.Sequential(layer, nn.Flatten(), nn.Linear(48, 4))
        report = initscope.inspect(model, data, pairs=16, alternatives=False, prediction=False)
        assert any(finding.name == "samples-mixed" for finding in report.errors) != first


def first_or_last(index):
    torch.manual_seed(0)
    forward = lambda m, x: m.head(m.loop(x)[0][:, index])
    return Called(forward, loop=nn.GRU(4, 16, batch_first=True), head=nn.Linear(16, 3))


def test_steps_that_the_output_does_not_read_are_counted():
    data = torch.randn(32, 10, 4, generator=torch.Generator().manual_seed(1))
    found = findings(first_or_last(0), data)["input-ignored"]
    assert found.level == "warning"
    assert found.value == 0.9
    assert "input-ignored" not in findings(first_or_last(-1), data)


def test_ignored_channels_that_hold_the_classes_are_an_error_although_the_batch_is_memorized():
    draws = torch.Generator().manual_seed(0)
    labels = torch.arange(96) % 3
    images = torch.randn(96, 2, 6, 6, generator=draws)
    images[:, 1] += 3 * torch.randn(3, 6, 6, generator=draws)[labels]

    def report(read):
        torch.manual_seed(0)
        body = nn.Sequential(nn.Flatten(), nn.Linear(36, 64), nn.ReLU(), nn.Linear(64, 3))
        model = Called(lambda m, x: m.body(x[:, read : read + 1]), body=body)
        options = {"targets": labels, "loss": F.cross_entropy, "optimizer": "adam", "lr": 1e-2}
        found = initscope.inspect(model, images, pairs=48, alternatives=False, prediction=False, **options)
        return {finding.name: finding.level for finding in found.findings}

    assert report(0)["input-ignored"] == "error"
    assert report(1)["input-ignored"] == "info"  # the other channel is noise


def test_values_that_only_ops_without_a_slope_read_are_not_ignored():
    def forward(m, x):
        return m.head(torch.cat([x[:, :4], x[:, 4:].round()], 1))

    data = 3 * torch.randn(32, 8, generator=torch.Generator().manual_seed(0))
    assert "input-ignored" not in findings(Called(forward, head=nn.Linear(8, 3)), data)


def test_images_with_channels_last_are_permuted_and_not_viewed():
    draws = torch.Generator().manual_seed(0)
    images = F.interpolate(torch.randn(64, 3, 4, 4, generator=draws), 12, mode="bicubic").permute(0, 2, 3, 1)

    def level(data, **options):
        torch.manual_seed(0)
        head = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(800, 4))
        model = Called(lambda m, x: m.body(x.reshape(-1, 3, 12, 12)), body=head)
        return findings(model, data, **options)["axis-order"].level

    assert level(images.contiguous()) == "error"
    assert level(torch.randn(64, 12, 12, 3, generator=draws)) == "warning"  # noise has no neighbours that are alike
