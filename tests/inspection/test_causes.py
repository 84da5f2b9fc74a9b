"""Root causes: what a finding follows from is about the same layers."""

import torch
from torch import nn

import initscope


class Branches(nn.Module):
    """A frozen layer, and a branch that is multiplied by zero."""

    def __init__(self, *, frozen):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.dead, self.b = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 3)
        self.a.requires_grad_(not frozen)

    def forward(self, x):
        x = torch.relu(self.a(x))
        return self.b(x + 0 * self.dead(x))


class Cut(nn.Module):
    """Outputs far out in a sigmoid, and a detach before or after the last layer."""

    def __init__(self, *, after_head):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.head, self.after_head = nn.Linear(16, 16), nn.Linear(16, 1), after_head
        nn.init.constant_(self.head.bias, 200.0)

    def forward(self, x):
        x = torch.tanh(self.a(x))
        x = self.head(x).detach() if self.after_head else self.head(x.detach())
        return torch.sigmoid(x)


def causes(model, targets, loss, **options):
    x = torch.randn(64, 16, generator=torch.Generator().manual_seed(1))
    options = {"pairs": 32, "prediction": False, "alternatives": False} | options
    report = initscope.inspect(model, x, targets=targets(x), loss=loss, **options)
    return {finding.code: finding.caused_by for finding in report.findings}


def test_parameters_that_do_not_move_do_not_follow_from_other_layers_that_are_frozen():
    def targets(x):
        return (x[:, 0] > 0).long() + (x[:, 1] > 0).long()

    found = causes(Branches(frozen=True), targets, nn.functional.cross_entropy, optimizer="adam", lr=1e-4)
    assert found["IS407"] is None
    assert "IS309" in found


def test_a_loss_that_is_stuck_follows_from_a_detach_after_the_last_layer_only():
    def targets(x):
        return (x[:, :1] > 0).float()

    loss = nn.functional.mse_loss
    assert causes(Cut(after_head=False), targets, loss, trial=False)["IS210"] is None
    found = causes(Cut(after_head=True), targets, loss, trial=False)
    assert found.get("IS210", "IS312") == "IS312"
    assert "IS312" in found
