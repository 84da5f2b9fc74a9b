"""Tiny configurations of Hugging Face's `transformers`, at the start that its own classes draw.

Only sizes are set; laws, deviations, scales and everything else are the library's defaults. Needs `transformers`, which
no test does: ``python -m evaluation published`` reads this file where the package is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import transformers
from torch import Tensor, nn

from evaluation.published.losses import cross_entropy, next_word
from evaluation.published.members import Member
from evaluation.published.samples import BYTES, labelled_text, photographs, text, translation

SIZES = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 128}
WORDS = {"vocab_size": BYTES, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


class Outputs(nn.Module):
    """A model of `transformers` as one that takes tensors and gives its logits, or what stands for them."""

    def __init__(self, model: nn.Module, *names: str) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, values: Tensor) -> Tensor:
        return self._output(values)

    def _output(self, *values: Tensor) -> Tensor:
        outputs = self.model(**dict(zip(self.names, values, strict=True)), return_dict=True)
        for name in ("logits", "reconstruction", "last_hidden_state"):
            if getattr(outputs, name, None) is not None:
                return getattr(outputs, name)
        raise ValueError(f"{type(outputs).__name__} has nothing that stands for an output")


class OutputsOfTwo(Outputs):
    """One that reads two texts; of arguments with a default a tuple of data would fill none."""

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self._output(source, target)


def build_of(kind: str, config: str, names: tuple[str, ...], options: dict[str, Any]) -> Callable[[], nn.Module]:
    """Return a factory of the model ``kind`` with ``config``; both are names of classes of `transformers`."""

    def build() -> nn.Module:
        made = getattr(transformers, config)(**options)
        made._attn_implementation = "eager"
        wrapper = Outputs if len(names) == 1 else OutputsOfTwo
        return wrapper(getattr(transformers, kind)(made).train(), *names)

    return build


def classifier(name: str, config: str, kind: str, **options: Any) -> Member:
    """Return a model that assigns text to one of two classes."""
    build = build_of(kind, config, ("input_ids",), SIZES | WORDS | {"num_labels": 2} | options)
    return Member(f"hf {name}", "transformers", build, labelled_text, cross_entropy)


def decoder(name: str, config: str, kind: str, **options: Any) -> Member:
    """Return a model that predicts the next token of a text."""
    build = build_of(kind, config, ("input_ids",), SIZES | WORDS | options)
    return Member(f"hf {name}", "transformers", build, text, next_word)


def vision(name: str, config: str, kind: str, side: int = 32, **options: Any) -> Member:
    """Return a model that assigns an image to one of ten classes."""
    build = build_of(kind, config, ("pixel_values",), {"image_size": side, "num_labels": 10} | options)
    return Member(f"hf {name}", "transformers", build, lambda count: photographs(count, side), cross_entropy)


def translator(name: str, config: str, kind: str, **options: Any) -> Member:
    """Return a model that reads a text and writes another."""
    build = build_of(kind, config, ("input_ids", "decoder_input_ids"), {"vocab_size": BYTES} | options)
    return Member(f"hf {name}", "transformers", build, translation, next_word)


HEADS = {"num_key_value_heads": 2}
VISION = SIZES | {"patch_size": 4}
BART = {
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}
T5 = {
    "d_model": 64,
    "d_kv": 16,
    "d_ff": 128,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "pad_token_id": 0,
    "decoder_start_token_id": 0,
}

MEMBERS: tuple[Member, ...] = (
    classifier("BERT", "BertConfig", "BertForSequenceClassification"),
    classifier("RoBERTa", "RobertaConfig", "RobertaForSequenceClassification"),
    classifier("DistilBERT", "DistilBertConfig", "DistilBertForSequenceClassification", dim=64, n_layers=4, n_heads=4,
                hidden_dim=128),
    classifier("ALBERT", "AlbertConfig", "AlbertForSequenceClassification", embedding_size=32),
    classifier("ELECTRA", "ElectraConfig", "ElectraForSequenceClassification", embedding_size=32),
    classifier("DeBERTa", "DebertaConfig", "DebertaForSequenceClassification"),
    classifier("DeBERTa v2", "DebertaV2Config", "DebertaV2ForSequenceClassification"),
    classifier("MPNet", "MPNetConfig", "MPNetForSequenceClassification"),
    classifier("FNet", "FNetConfig", "FNetForSequenceClassification", tpu_short_seq_length=32),
    classifier("ConvBERT", "ConvBertConfig", "ConvBertForSequenceClassification", embedding_size=32),
    classifier("Nystromformer", "NystromformerConfig", "NystromformerForSequenceClassification",
                segment_means_seq_len=32, num_landmarks=8),
    classifier("SqueezeBERT", "SqueezeBertConfig", "SqueezeBertForSequenceClassification", embedding_size=64),
    classifier("MobileBERT", "MobileBertConfig", "MobileBertForSequenceClassification", embedding_size=32,
                intra_bottleneck_size=32),
    classifier("ModernBERT", "ModernBertConfig", "ModernBertForSequenceClassification", cls_token_id=1,
                sep_token_id=2),
    decoder("GPT-2", "GPT2Config", "GPT2LMHeadModel", n_embd=64, n_layer=4, n_head=4, n_positions=64),
    decoder("GPT-Neo", "GPTNeoConfig", "GPTNeoForCausalLM", num_layers=4, num_heads=4,
            attention_types=[[["global", "local"], 2]], window_size=16),
    decoder("GPT-J", "GPTJConfig", "GPTJForCausalLM", n_embd=64, n_layer=4, n_head=4, n_positions=64, rotary_dim=8),
    decoder("GPT-NeoX", "GPTNeoXConfig", "GPTNeoXForCausalLM"),
    decoder("OPT", "OPTConfig", "OPTForCausalLM", ffn_dim=128, word_embed_proj_dim=64),
    decoder("BLOOM", "BloomConfig", "BloomForCausalLM", n_layer=4, n_head=4),
    decoder("Falcon", "FalconConfig", "FalconForCausalLM"),
    decoder("MPT", "MptConfig", "MptForCausalLM", d_model=64, n_heads=4, n_layers=4, max_seq_len=64),
    decoder("Llama", "LlamaConfig", "LlamaForCausalLM", **HEADS),
    decoder("Mistral", "MistralConfig", "MistralForCausalLM", **HEADS),
    decoder("Mixtral", "MixtralConfig", "MixtralForCausalLM", num_local_experts=4, **HEADS),
    decoder("Qwen2", "Qwen2Config", "Qwen2ForCausalLM", **HEADS),
    decoder("Qwen3", "Qwen3Config", "Qwen3ForCausalLM", head_dim=16, **HEADS),
    decoder("Gemma", "GemmaConfig", "GemmaForCausalLM", head_dim=16, **HEADS),
    decoder("Gemma 2", "Gemma2Config", "Gemma2ForCausalLM", head_dim=16, **HEADS),
    decoder("Phi", "PhiConfig", "PhiForCausalLM"),
    decoder("StableLM", "StableLmConfig", "StableLmForCausalLM", num_key_value_heads=4),
    decoder("OLMo", "OlmoConfig", "OlmoForCausalLM"),
    decoder("Mamba", "MambaConfig", "MambaForCausalLM", state_size=8),
    decoder("RWKV", "RwkvConfig", "RwkvForCausalLM", attention_hidden_size=64, context_length=64),
    translator("T5", "T5Config", "T5ForConditionalGeneration", **T5),
    translator("BART", "BartConfig", "BartForConditionalGeneration", **BART),
    translator("Marian", "MarianConfig", "MarianMTModel", **BART),
    translator("Pegasus", "PegasusConfig", "PegasusForConditionalGeneration", **BART),
    translator("mBART", "MBartConfig", "MBartForConditionalGeneration", **BART),
    vision("ViT", "ViTConfig", "ViTForImageClassification", **VISION),
    vision("DeiT", "DeiTConfig", "DeiTForImageClassification", **VISION),
    vision("BEiT", "BeitConfig", "BeitForImageClassification", **VISION),
    vision("DINOv2", "Dinov2Config", "Dinov2ForImageClassification", **VISION),
    vision("Swin", "SwinConfig", "SwinForImageClassification", patch_size=4, embed_dim=32, depths=[2, 2],
          num_heads=[2, 4], window_size=4),
    vision("Swin v2", "Swinv2Config", "Swinv2ForImageClassification", patch_size=4, embed_dim=32, depths=[2, 2],
          num_heads=[2, 4], window_size=4),
    vision("ConvNeXt", "ConvNextConfig", "ConvNextForImageClassification", patch_size=2, hidden_sizes=[16, 32, 64, 128],
          depths=[1, 1, 2, 1]),
    vision("ConvNeXt v2", "ConvNextV2Config", "ConvNextV2ForImageClassification", patch_size=2,
          hidden_sizes=[16, 32, 64, 128], depths=[1, 1, 2, 1]),
    vision("ResNet", "ResNetConfig", "ResNetForImageClassification", side=64, embedding_size=16,
          hidden_sizes=[32, 64, 128, 256], depths=[1, 2, 2, 1]),
    vision("RegNet", "RegNetConfig", "RegNetForImageClassification", side=64, embedding_size=16,
          hidden_sizes=[16, 32, 64, 128], depths=[1, 1, 2, 1], groups_width=8),
    vision("MobileNetV1", "MobileNetV1Config", "MobileNetV1ForImageClassification", side=64, depth_multiplier=0.25),
    vision("MobileNetV2", "MobileNetV2Config", "MobileNetV2ForImageClassification", side=64, depth_multiplier=0.35),
    vision("PoolFormer", "PoolFormerConfig", "PoolFormerForImageClassification", hidden_sizes=[16, 32, 64, 64],
          depths=[1, 1, 2, 1]),
    vision("Segformer", "SegformerConfig", "SegformerForImageClassification", side=64, hidden_sizes=[16, 32, 64, 64],
          depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 4, 4]),
    vision("PVT v2", "PvtV2Config", "PvtV2ForImageClassification", side=64, hidden_sizes=[16, 32, 64, 64],
          depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 4, 4]),
    vision("LeViT", "LevitConfig", "LevitForImageClassification", side=64, hidden_sizes=[32, 48, 64], depths=[1, 1, 1],
          num_attention_heads=[2, 3, 4], key_dim=[16, 16, 16]),
    vision("BiT", "BitConfig", "BitForImageClassification", side=64, embedding_size=16, hidden_sizes=[32, 64, 128, 256],
          depths=[1, 1, 2, 1], num_groups=8),
)  # fmt: skip
