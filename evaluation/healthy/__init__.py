"""Eighty-odd public healthy models: families of ``transformers``, and architectures of timm and other repositories."""

import importlib.util

from evaluation.healthy import convolutional, generative, sequences, structures, vision_transformers

HEALTHY = (
    *convolutional.HEALTHY,
    *vision_transformers.HEALTHY,
    *sequences.HEALTHY,
    *generative.HEALTHY,
    *structures.HEALTHY,
)
if importlib.util.find_spec("transformers"):
    from evaluation.healthy import transformers_families

    HEALTHY += transformers_families.HEALTHY
SMALL = ("resnet", "nfnet", "levit", "lsa_vit", "nano_gpt", "unet", "real_nvp", "dqn")
