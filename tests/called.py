"""`Called`: a model in one line, for tests of what is wired how."""

from torch import nn


class Called(nn.Module):
    """A model that is a function of its layers and inputs."""

    def __init__(self, function, **layers):
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, *inputs):
        return self.function(self, *inputs)
