"""Families of `transformers` that `evaluation.published` does not have; only sizes are set."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from evaluation.programs import Healthy, Program
from evaluation.published.members import Member
from evaluation.published.transformers_models import (
    BART,
    HEADS,
    SIZES,
    T5,
    Outputs,
    build_of,
    classifier,
    decoder,
    translator,
    vision,
)
from evaluation.samples import tones

EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64}
AUDIO = SIZES | {
    "num_labels": 4,
    "conv_dim": (16, 16, 16),
    "conv_stride": (5, 2, 2),
    "conv_kernel": (10, 3, 3),
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "num_feat_extract_layers": 3,
    "classifier_proj_size": 32,
    "mask_time_prob": 0.0,
}


def _sound(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    values, labels = tones(640)(count, generator)
    return values[:, 0], labels


def _series(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    values, labels = tones(64, channels=2)(count, generator)
    return values.transpose(1, 2), labels


def _of(member: Member) -> Healthy:
    program = Program(member.build, lambda count, generator: member.data(count), member.loss, steps=40, batch=16,
                      samples=48)  # fmt: skip
    return Healthy(member.name, program, "transformers")


def _listener(name: str, config: str, kind: str, **options: Any) -> Healthy:
    program = Program(build_of(kind, config, ("input_values",), AUDIO | options), _sound, steps=60, batch=16)
    return Healthy(f"hf {name}", program, "transformers")


class Scores(Outputs):
    """The class scores of a model of time series."""

    def _output(self, *values: Tensor) -> Tensor:
        outputs = self.model(**dict(zip(self.names, values, strict=True)), return_dict=True)
        return getattr(outputs, "prediction_logits", getattr(outputs, "prediction_outputs", None))


def _forecaster(name: str, config: str, kind: str, **options: Any) -> Healthy:
    import transformers

    def build() -> Scores:
        return Scores(getattr(transformers, kind)(getattr(transformers, config)(**options)).train(), "past_values")

    return Healthy(f"hf {name}", Program(build, _series, steps=60, batch=16), "transformers")


SERIES = {"num_input_channels": 2, "context_length": 64, "patch_length": 8, "patch_stride": 8, "num_targets": 4}

HEALTHY = (
    *map(_of, (
        classifier("CamemBERT", "CamembertConfig", "CamembertForSequenceClassification"),
        classifier("XLM-RoBERTa", "XLMRobertaConfig", "XLMRobertaForSequenceClassification"),
        classifier("RoFormer", "RoFormerConfig", "RoFormerForSequenceClassification", embedding_size=64),
        classifier("Megatron-BERT", "MegatronBertConfig", "MegatronBertForSequenceClassification"),
        classifier("Ernie", "ErnieConfig", "ErnieForSequenceClassification"),
        classifier("RemBERT", "RemBertConfig", "RemBertForSequenceClassification", input_embedding_size=32,
                        output_embedding_size=64),
        classifier("Data2Vec text", "Data2VecTextConfig", "Data2VecTextForSequenceClassification"),
        classifier("LayoutLM", "LayoutLMConfig", "LayoutLMForSequenceClassification"),
        classifier("XLM", "XLMConfig", "XLMForSequenceClassification", emb_dim=64, n_layers=3, n_heads=4,
                        n_words=256),
        classifier("BigBird", "BigBirdConfig", "BigBirdForSequenceClassification", attention_type="original_full"),
        decoder("CodeGen", "CodeGenConfig", "CodeGenForCausalLM", n_embd=64, n_layer=3, n_head=4, n_positions=64,
                       rotary_dim=8),
        decoder("BioGPT", "BioGptConfig", "BioGptForCausalLM"),
        decoder("XGLM", "XGLMConfig", "XGLMForCausalLM", d_model=64, num_layers=3, attention_heads=4,
                       ffn_dim=128),
        decoder("Phi-3", "Phi3Config", "Phi3ForCausalLM"),
        decoder("StarCoder 2", "Starcoder2Config", "Starcoder2ForCausalLM", **HEADS),
        decoder("Granite", "GraniteConfig", "GraniteForCausalLM", **HEADS),
        decoder("OLMo 2", "Olmo2Config", "Olmo2ForCausalLM"),
        decoder("Gemma 3", "Gemma3TextConfig", "Gemma3ForCausalLM", head_dim=16, **HEADS),
        decoder("Cohere", "CohereConfig", "CohereForCausalLM"),
        decoder("GPT-BigCode", "GPTBigCodeConfig", "GPTBigCodeForCausalLM", n_embd=64, n_layer=3, n_head=4,
                       n_positions=64),
        decoder("Persimmon", "PersimmonConfig", "PersimmonForCausalLM"),
        decoder("OLMoE", "OlmoeConfig", "OlmoeForCausalLM", **EXPERTS),
        decoder("Nemotron", "NemotronConfig", "NemotronForCausalLM", **HEADS),
        decoder("GPT", "OpenAIGPTConfig", "OpenAIGPTLMHeadModel", n_embd=64, n_layer=3, n_head=4,
                       n_positions=64),
        decoder("CTRL", "CTRLConfig", "CTRLLMHeadModel", n_embd=64, n_layer=3, n_head=4, dff=128,
                       n_positions=64),
        decoder("Helium", "HeliumConfig", "HeliumForCausalLM", head_dim=16, **HEADS),
        decoder("SmolLM 3", "SmolLM3Config", "SmolLM3ForCausalLM", **HEADS),
        decoder("GLM", "GlmConfig", "GlmForCausalLM", head_dim=16, **HEADS),
        vision("FocalNet", "FocalNetConfig", "FocalNetForImageClassification", embed_dim=16, depths=[1, 1, 1],
                         hidden_sizes=[16, 32, 64], focal_levels=[2, 2, 2], focal_windows=[3, 3, 3]),
        vision("MobileViT", "MobileViTConfig", "MobileViTForImageClassification", side=64,
                         hidden_sizes=[32, 48, 64], neck_hidden_sizes=[8, 16, 24, 32, 40, 48, 64],
                         num_attention_heads=4),
        vision("PVT", "PvtConfig", "PvtForImageClassification", side=64, hidden_sizes=[16, 32, 64, 64],
                         depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 4, 4]),
        vision("Data2Vec vision", "Data2VecVisionConfig", "Data2VecVisionForImageClassification", patch_size=4,
                         **SIZES),
        vision("DINOv2 registers", "Dinov2WithRegistersConfig", "Dinov2WithRegistersForImageClassification",
                         patch_size=4, **SIZES),
        vision("EfficientNet", "EfficientNetConfig", "EfficientNetForImageClassification", side=64,
                         width_coefficient=0.25, depth_coefficient=0.25, hidden_dim=320),
        vision("Hiera", "HieraConfig", "HieraForImageClassification", image_size=[32, 32], embed_dim=16,
                         depths=[1, 1, 1], num_heads=[1, 2, 4], patch_size=[4, 4], patch_stride=[4, 4],
                         patch_padding=[0, 0], masked_unit_size=[4, 4], query_stride=[2, 2], num_query_pool=2),
        translator("Blenderbot", "BlenderbotConfig", "BlenderbotForConditionalGeneration", **BART),
        translator("M2M-100", "M2M100Config", "M2M100ForConditionalGeneration", **BART),
        translator("mT5", "MT5Config", "MT5ForConditionalGeneration", **T5),
    )),
    _listener("Wav2Vec2", "Wav2Vec2Config", "Wav2Vec2ForSequenceClassification"),
    _listener("HuBERT", "HubertConfig", "HubertForSequenceClassification"),
    _listener("WavLM", "WavLMConfig", "WavLMForSequenceClassification"),
    _forecaster("PatchTST", "PatchTSTConfig", "PatchTSTForClassification", d_model=32, num_hidden_layers=2,
                num_attention_heads=4, ffn_dim=64, **SERIES),
    _forecaster("PatchTSMixer", "PatchTSMixerConfig", "PatchTSMixerForTimeSeriesClassification", d_model=16,
                num_layers=2, **SERIES),
)  # fmt: skip
