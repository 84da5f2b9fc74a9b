"""All members by name, and those that are few and quick enough for CI."""

from __future__ import annotations

from evaluation.published import convolutional, images, language, recurrent, residual, structures, vision_transformers
from evaluation.published.members import Member

FAMILIES = (convolutional, residual, images, vision_transformers, language, recurrent, structures)

HEALTHY: dict[str, Member] = {member.name: member for family in FAMILIES for member in family.MEMBERS}
"""Published architectures at their published start."""

SMALL = (
    *("VGG-BN", "ResNet-20", "ConvNeXt", "Fixup", "autoencoder", "diffusion U-Net", "ViT", "MLP-Mixer", "BERT"),
    *("GPT-2", "Llama", "nn.TransformerEncoder", "LSTM", "GCN", "tabular MLP"),
)
"""A healthy one of most kinds, together in under 20 s."""
