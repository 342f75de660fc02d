"""One way to sample: the same conversations through a model in this process and through a real server."""

import socket
import subprocess
import sys
import threading
import time
import urllib.request
from concurrent.futures import CancelledError
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import diskcache
import pytest
import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from chat_server import answer
from kernelrl.configs import compose_config
from kernelrl.errors import InfrastructureError, UserError
from kernelrl.policies.backends import defaults, open_policy, read_settings
from kernelrl.policies.backends.copies import Copies
from kernelrl.policies.backends.vllm import Vllm, share_gpus, visible_gpus
from kernelrl.policies.models import load_policy, save_policy, train_tokenizer
from kernelrl.policies.prompts import render

ASKED = [[{"role": "user", "content": text}] for text in ("one\n", "a longer question\n", "three\n")]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Models this small are slower on several."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A policy of random weights."""
    torch.manual_seed(0)
    tokenizer = train_tokenizer([messages[0]["content"] for messages in ASKED], bpe_tokens=280, line_tokens=10)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        initializer_range=0.5,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    folder = tmp_path_factory.mktemp("policy") / "model"
    save_policy(Qwen3ForCausalLM(config), tokenizer, folder)
    return folder


def local(folder, **changes):
    return open_policy(defaults("transformers") | {"model": str(folder), "max_new_tokens": 12} | changes)


def served(server, **changes):
    return open_policy(defaults("endpoint") | {"model": "m", "base_url": server.url, "retries": 0} | changes)


def test_equal_calls_give_equal_answers_in_the_order_of_the_questions(folder):
    policy = local(folder, batch_size=2)
    first = policy.sample(ASKED, [1, 2, 3])
    assert first == policy.sample(ASKED, [1, 2, 3]) != policy.sample(ASKED, [1, 2, 4])
    greedy = local(folder, temperature=0.0)
    assert greedy.sample(ASKED, [1, 2, 3]) == greedy.sample(ASKED, [4, 5, 6])
    assert policy.sample([], []) == []


def test_an_answer_has_its_tokens_their_probabilities_and_why_it_ended(folder):
    """Under the distribution that was sampled from: a second pass over the same tokens says the same."""
    temperature = 0.7
    policy = local(folder, temperature=temperature, log_probabilities=True, max_new_tokens=100)
    answers = policy.sample(ASKED * 4, range(12))
    model, tokenizer = load_policy(folder)
    assert {given.finish for given in answers} == {"stop", "length"}, "of these seeds"
    for messages, given in zip(ASKED * 4, answers, strict=True):
        prompt = tokenizer(render(tokenizer, messages, {}), add_special_tokens=False)["input_ids"]
        assert given.prompt_tokens == len(prompt) and given.completion_tokens == len(given.token_ids)
        assert (given.token_ids[-1] == tokenizer.eos_token_id) == (given.finish == "stop")
        assert tokenizer.eos_token_id not in given.token_ids[:-1]
        with torch.no_grad():
            logits = model(torch.tensor([[*prompt, *given.token_ids]])).logits[0, len(prompt) - 1 : -1] / temperature
        logps = logits.log_softmax(-1)[range(len(given.token_ids)), list(given.token_ids)]
        torch.testing.assert_close(torch.tensor(given.log_probabilities), logps, rtol=1e-3, atol=1e-3)


@pytest.fixture
def thinker(folder, tmp_path):
    """A policy whose tokenizer has the marks of its reasoning among its special tokens, with their ids."""
    model, tokenizer = load_policy(str(folder))
    tokenizer.add_special_tokens({"extra_special_tokens": ["<think>", "</think>"]})
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    save_policy(model, tokenizer, tmp_path / "thinker")
    return tmp_path / "thinker", tokenizer("<think>one\n</think>three\n<|end|>")["input_ids"]


def drawn(prompts, ids):
    """What `generate` would return."""
    return SimpleNamespace(sequences=torch.cat([prompts, torch.tensor([ids])], 1))


def test_special_tokens_that_mark_the_reasoning_stay_in_the_text(thinker, tmp_path, monkeypatch):
    """Whoever decodes without special tokens keeps them, also of a policy that is trained on from there."""
    folder, ids = thinker
    written = "<think>one\n</think>three\n"
    policy = local(folder)
    monkeypatch.setattr(policy._model, "generate", lambda input_ids, **_: drawn(input_ids, ids))
    assert policy.sample(ASKED[:1], [1])[0].text == written
    model, tokenizer = load_policy(folder)
    save_policy(model, tokenizer, tmp_path / "trained")
    for each in (policy._tokenizer, AutoTokenizer.from_pretrained(tmp_path / "trained")):
        assert each.decode(ids, skip_special_tokens=True) == written and each(written + "<|end|>")["input_ids"] == ids
    assert AutoTokenizer.from_pretrained(folder).decode(ids, skip_special_tokens=True) != written


def test_vllm_answers_with_the_marks_of_the_reasoning(thinker, monkeypatch):
    folder, ids = thinker
    drawn = SimpleNamespace(token_ids=ids, text="one\nthree\n", logprobs=None, finish_reason="stop")
    output = SimpleNamespace(outputs=[drawn], prompt_token_ids=[1])
    engine = SimpleNamespace(chat=lambda *conversations, **options: [output])
    library = SimpleNamespace(LLM=lambda **options: engine, SamplingParams=lambda **options: None)
    monkeypatch.setitem(sys.modules, "vllm", library)
    policy = Vllm(read_settings(defaults("vllm") | {"model": str(folder)}))
    assert policy.sample(ASKED[:1], [1])[0].text == "<think>one\n</think>three\n"


def test_a_conversation_that_leaves_no_room_for_an_answer_is_named_with_its_length(folder, tmp_path):
    model, tokenizer = load_policy(str(folder))
    model.config.max_position_embeddings = 100
    save_policy(model, tokenizer, tmp_path / "narrow")
    long = [{"role": "user", "content": "one\n" * 90}]
    policy = local(tmp_path / "narrow", max_new_tokens=12, cache_dir=str(tmp_path / "answers"))
    number = len(tokenizer(render(tokenizer, long, {}), add_special_tokens=False)["input_ids"])
    assert policy.too_long(ASKED[0]) is None
    expected = (
        f"has {number} tokens, and with max_new_tokens=12 for the answer that is more than the model's context of 100"
    )
    assert expected in policy.too_long(long)
    short, refused, again = policy.sample([ASKED[0], long, ASKED[0]], [0, 1, 2])
    assert short.text and again.text and (refused.text, refused.failure) == ("", "too long")
    assert refused.refused == policy.too_long(long), "it is not asked, and its answer does not go past the context"
    policy.close()


def test_a_model_without_a_chat_template_is_named_with_the_way_out(folder, tmp_path):
    model, tokenizer = load_policy(str(folder))
    tokenizer.chat_template = None
    save_policy(model, tokenizer, tmp_path / "plain")
    with pytest.raises(UserError, match="plain has no chat template, and so cannot be asked: put a chat_template"):
        local(tmp_path / "plain")


def test_a_server_that_refuses_a_question_says_why_and_one_that_is_busy_does_not(serve):
    said = '{"error": {"message": "This model\'s maximum context length is 4096 tokens."}}'
    policy = served(serve((400, said), (500, said)), concurrency=1)
    refused, busy = sorted(policy.sample(ASKED[:2], [1, 2]), key=lambda each: each.failure)
    assert refused.failure == "HTTP 400" and "maximum context length is 4096" in refused.refused
    assert (busy.failure, busy.refused) == ("HTTP 500", None)
    policy.close()


def test_whoever_asks_while_it_closes_is_told_and_does_not_wait(serve):
    server, told = serve(answer("soon")), []

    def ask_until_told(policy):
        try:
            while True:
                policy.sample(ASKED, [1, 2, 3])
        except CancelledError:
            told.append(policy)

    policies = [served(server) for _ in range(8)]
    askers = [threading.Thread(target=ask_until_told, args=(policy,)) for policy in policies for _ in range(2)]
    for asker in askers:
        asker.start()
    for policy in policies:
        policy.close()
    for asker in askers:
        asker.join()
    assert len(told) == len(askers)


def test_a_server_gives_the_same_kind_of_answer(serve):
    server = serve(answer("slow", reasoning_content="why"), answer(None, reasoning="too long"), answer("cut"))
    prices = {"prompt": 2.0, "completion": 10.0}
    policy = served(server, concurrency=1, prices=prices, request={"stop": ["END"]})
    first, second, third = policy.sample(ASKED, [1, 2, 3])
    assert first.text == "<think>\nwhy\n</think>\nslow" and second.text == "<think>\ntoo long" and third.text == "cut"
    assert (first.finish, first.prompt_tokens, first.completion_tokens) == ("stop", 1000, 500)
    assert first.cost == pytest.approx((1000 * 2 + 500 * 10) / 1e6) and first.log_probabilities is None
    body = server.requests[0][2]
    assert (body["model"], body["seed"], body["messages"], body["stop"]) == ("m", 1, ASKED[0], ["END"])
    policy.close()


@pytest.mark.parametrize("owner", ["vllm", "sglang"])
def test_a_server_is_told_to_cut_off_nothing_of_its_own(serve, owner):
    """Else it begins with the model's `generation_config`: Qwen's cuts off below the 20th token."""
    server = serve(answer("x"), owner=owner)
    for extra in ({}, {"top_k": 5}):
        policy = served(server, request={"extra_body": extra})
        policy.sample(ASKED, [1, 2, 3])
        policy.close()
    first, *_, last = [body for _, _, body in server.requests]
    own = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "skip_special_tokens": False}
    assert own.items() <= first.items() and (own | {"top_k": 5}).items() <= last.items()


def test_a_server_that_may_sample_otherwise_is_named_once(serve, caplog):
    server = serve(answer("x"), owner="somebody")
    policy = served(server)
    for _ in range(2):
        policy.sample(ASKED, [1, 2, 3])
    policy.close()
    assert [f"policy.base_url={server.url}: not vLLM, SGLang" in each.message for each in caplog.records] == [True]
    assert "top_k" not in server.requests[0][2]


def test_a_server_that_is_late_is_asked_nothing_before_it_says_what_it_is(serve):
    server = serve(answer("x"), owner="vllm", pages=dict.fromkeys(["/openapi.json", "/v1/models"], (503, "{}")))
    policy = served(server)
    assert [given.failure for given in policy.sample(ASKED, [1, 2, 3])] == ["HTTP 503"] * 3
    assert server.requests == []
    server.pages.clear()
    assert [given.text for given in policy.sample(ASKED, [1, 2, 3])] == ["x"] * 3
    assert all(body["top_k"] == -1 for _, _, body in server.requests)
    policy.close()


def test_a_server_that_was_not_there_is_asked_what_it_is_when_it_has_come(serve):
    server = serve(answer("x"), owner="sglang")
    policy = served(server)
    policy._client.base_url = "http://127.0.0.1:9/v1"
    with pytest.raises(UserError, match="cannot be reached"):
        policy.sample(ASKED[:1], [1])
    policy._client.base_url = server.url
    policy.sample(ASKED[:1], [1])
    policy.close()
    assert server.requests[0][2]["top_k"] == -1


ODD = ['{"paths": null, "data": "vllm"}', '{"paths": "/load_model", "data": ["vllm", null]}', "[]", "null", "no JSON"]


@pytest.mark.parametrize("odd", [*((200, each) for each in ODD), (500, "{}"), (404, "")])
def test_what_a_server_says_of_itself_may_be_anything(serve, odd, caplog):
    server = serve(answer("x"), pages=dict.fromkeys(["/openapi.json", "/v1/models"], odd))
    policy = served(server)
    assert [given.text for given in policy.sample(ASKED, [1, 2, 3])] == ["x"] * 3
    policy.close()
    assert ["not vLLM, SGLang" in each.message for each in caplog.records] == [True]


def test_what_a_server_refuses_is_not_sent(serve):
    server = serve(answer("x"))
    policy = served(server, temperature=None, top_p=None, max_new_tokens=None, request={"max_completion_tokens": 9})
    policy.sample(ASKED[:1], [1])
    body = server.requests[0][2]
    assert not {"temperature", "top_p", "max_tokens"} & body.keys() and body["max_completion_tokens"] == 9
    policy.close()


def test_reasoning_that_the_servers_template_opened_is_no_answer(serve):
    marks = {"start": "<think>", "end": "</think>", "opening": "<think>\n"}
    policy = served(serve(answer("a draft, cut off")), reasoning=marks)
    assert policy.sample(ASKED[:1], [1])[0].text == "<think>\na draft, cut off"
    policy.close()


def test_questions_are_spaced_where_the_rate_is_limited(serve):
    server = serve(answer("x"))
    policy = served(server, requests_per_minute=600)
    started = time.monotonic()
    policy.sample(ASKED, [1, 2, 3])
    assert server.times[-1] - started >= 0.2
    policy.close()


def test_answers_are_kept_and_failures_asked_again(serve, tmp_path):
    server = serve(answer("one"), (500, "{}"), answer("three"))
    options = {"cache_dir": str(tmp_path / "answers"), "concurrency": 1, "prices": {"prompt": 1.0, "completion": 1.0}}
    policy = served(server, **options)
    answers = policy.sample(ASKED, [1, 2, 3])
    assert [given.text for given in answers] == ["one", "", "three"] and answers[1].failure == "HTTP 500"
    policy.close()
    again = served(server, **options)
    answers = again.sample(ASKED, [1, 2, 3])
    assert [(given.text, given.cached) for given in answers] == [("one", True), ("three", False), ("three", True)]
    assert len(server.requests) == 4 and answers[0].cost == 0 and answers[0].prompt_tokens == 1000
    again.close()


def test_no_answer_is_dropped_however_many_are_kept(serve, tmp_path):
    """The cache's own default drops the oldest beyond a size."""
    questions = [[{"role": "user", "content": str(number)}] for number in range(100)]
    with diskcache.Cache(tmp_path / "answers") as cache:
        cache.reset("size_limit", 1 << 16)
    policy = served(serve(answer("x" * 2000)), concurrency=2, cache_dir=str(tmp_path / "answers"))
    policy.sample(questions, range(100))
    assert all(given.cached for given in policy.sample(questions, range(100)))
    policy.close()


def test_a_server_that_dies_leaves_what_it_answered(serve, tmp_path):
    server = serve(answer("one"))
    policy = served(server, cache_dir=str(tmp_path / "answers"))
    policy.sample(ASKED[:1], [1])
    server.shutdown()
    server.server_close()
    with pytest.raises(UserError, match=r"policy.base_url=http://127.0.0.1:\d+/v1 cannot be reached"):
        policy.sample(ASKED, [1, 2, 3])
    assert [given.cached for given in policy.sample(ASKED[:1], [1])] == [True]
    policy.close()


@pytest.fixture(scope="module")
def transformers_server(folder):
    """`transformers serve` of the policy as a Llama, whose `generation_config` takes the most likely token: its URL."""
    model, tokenizer = load_policy(folder)
    names = (
        "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads "
        "head_dim initializer_range eos_token_id pad_token_id"
    ).split()
    torch.manual_seed(0)
    llama = LlamaForCausalLM(LlamaConfig(**{name: getattr(model.config, name) for name in names}))
    llama.generation_config.do_sample, llama.generation_config.top_k = True, 1
    save_policy(llama, tokenizer, folder.with_name("llama"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [Path(sys.executable).with_name("transformers"), "serve", folder.with_name("llama"), "--device", "cpu"]
    with open(folder.with_name("serve.log"), "w+") as log:
        running = subprocess.Popen([*command, "--port", str(port)], stdout=log, stderr=log)
        try:
            while b"ok" not in _health(port):
                assert running.poll() is None, log.seek(0) or log.read()
                time.sleep(0.2)
            yield f"http://127.0.0.1:{port}/v1", folder.with_name("llama")
        finally:
            running.terminate()
            running.wait()


def _health(port):
    try:
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/health").read()
    except OSError:
        return b""


@pytest.mark.slow
def test_transformers_serve_draws_as_it_is_asked_to(transformers_server):
    """It would take the most likely token whatever the temperature, and has the cut-off of the model's config."""
    url, folder = transformers_server

    def sample(asked, **changes):
        options = {"model": str(folder), "base_url": url, "max_new_tokens": 100, "log_probabilities": True}
        policy = open_policy(defaults("endpoint") | options | {"concurrency": 1} | changes)
        answers = policy.sample(asked, range(len(asked)))
        policy.close()
        return answers

    answers = sample(ASKED * 4)
    assert len({given.text for given in answers}) == 12, "of one question too"
    assert {given.finish for given in answers} == {"stop", "length"}, "of these seeds"
    assert all(given.completion_tokens == 100 for given in answers if given.finish == "length")
    assert [given.text for given in sample(ASKED)] == [given.text for given in answers[:3]], "by equal seeds"
    likeliest = local(folder, temperature=0.0, max_new_tokens=100).sample(ASKED, range(3))
    for given, own in zip(sample(ASKED, temperature=0.0), likeliest, strict=True):
        assert (given.text, given.finish, given.completion_tokens) == (own.text, own.finish, own.completion_tokens)
        assert given.prompt_tokens == own.prompt_tokens and given.log_probabilities is None, "it has none"


@pytest.mark.slow
def test_copies_in_processes_of_their_own_answer_as_one_policy_does(folder):
    """Dealt out to two, in the order of the questions, after a call that was given up; a copy that dies is named."""
    settings = read_settings(defaults("transformers") | {"model": str(folder), "max_new_tokens": 12})
    copies = Copies(partial(open_policy, settings), [{"OMP_NUM_THREADS": "1"}] * 2)
    assert next(copies.stream(ASKED, [4, 5, 6]))[0] in (0, 1)
    for alone, index in ((ASKED[::2], [1, 3]), (ASKED[1:2], [2])):
        expected = local(folder).sample(alone, index)
        given = copies.sample(ASKED, [1, 2, 3])
        assert [given[seed - 1] for seed in index] == expected
    copies._processes[0].kill()
    with pytest.raises(InfrastructureError, match=r"a copy of the policy has ended \(exit code -9\)"):
        copies.sample(ASKED, [1, 2, 3])
    copies.close()
    with pytest.raises(UserError, match="policy nowhere: no model there"):
        Copies(partial(open_policy, settings.model_copy(update={"model": "./nowhere"})), [{}])


@pytest.mark.parametrize(
    ("copies", "engine", "shares"),
    [
        (None, {}, ["4", "5", "6", "7"]),
        (2, {}, ["4", "5"]),
        (None, {"tensor_parallel_size": 2}, ["4,5", "6,7"]),
        (None, {"tensor_parallel_size": 3}, ["4,5,6"]),
    ],
)
def test_copies_share_out_the_gpus_of_the_node(monkeypatch, copies, engine, shares):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    settings = read_settings(defaults("vllm") | {"model": "m", "copies": copies, "engine": engine})
    environments = share_gpus(settings, visible_gpus(), "policy")
    assert environments == [{"CUDA_VISIBLE_DEVICES": share} for share in shares]


def test_more_copies_than_gpus_are_refused(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    settings = read_settings(defaults("vllm") | {"model": "m", "copies": 2, "engine": {"tensor_parallel_size": 2}})
    with pytest.raises(UserError, match="policy.copies=2: they need 2 x 2 GPUs, and there are 2"):
        share_gpus(settings, visible_gpus(), "policy")


@pytest.mark.parametrize("backend", ["transformers", "vllm", "endpoint"])
def test_every_option_of_the_config_is_a_backend(backend):
    node = compose_config("eval", [f"policy={backend}"]).policy
    assert node == defaults(backend)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"backend": "cloud"}, r"policy.backend='cloud' is not known; choose transformers, vllm, endpoint"),
        ({"model": None}, r"policy.model is not set; give a folder or a hub id"),
        ({"model": "./nowhere"}, r"policy nowhere: no model there"),
        ({"temperature": -1}, r"policy.temperature=-1"),
        ({"batchsize": 3}, r"policy.batchsize=3"),
    ],
)
def test_what_cannot_be_opened_is_one_line(folder, changes, message):
    with pytest.raises(UserError, match=message) as error:
        local(folder, **changes)
    assert "\n" not in str(error.value)


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed")
def test_a_backend_that_is_not_installed_says_how_to_get_it(folder):
    with pytest.raises(UserError, match=r"policy.backend=vllm: .*; pip install 'kernelrl\[vllm\]'"):
        open_policy(defaults("vllm") | {"model": str(folder)})


def test_a_policy_without_a_token_to_pad_with_is_sampled_in_batches(folder, tmp_path):
    """Llama's tokenizers have none."""
    model, tokenizer = load_policy(folder)
    tokenizer.pad_token = None
    save_policy(model, tokenizer, tmp_path / "policy")
    assert [answer.failure for answer in local(tmp_path / "policy").sample(ASKED, [0, 1, 2])] == [None] * 3
