"""Similarity reward: how close is the kernel's text to one that is known to be right?"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from kernelrl.candidate import Completion
from kernelrl.rewards import Context, reward
from kernelrl.verdict import Verdict

PADDING = -1
_TOKEN = re.compile(r"\w+|[^\w\s]")


@reward("similarity")
def similarity(completion: Completion, verdict: Verdict, context: Context) -> float:
    """BLEU of the kernel with the task's known right kernels; 0 where the completion has no kernel or none is known.

    Tokens are words and signs of the source. As a term it leads a policy that is right too rarely to learn from; let
    its weight fall to 0 (`weight: {start: 0.2, end: 0, until: 0.3}`), because text is not what is wanted.

    Source: TensorBLEU (arXiv 2510.05485), sentence BLEU on token ids.
    """
    if completion.source is None or not context.references:
        return 0.0
    return float(bleu_of([completion.source], [context.references])[0])


def bleu_of(candidates: Sequence[str], references: Sequence[Sequence[str]]) -> Tensor:
    """(N,) BLEU of N sources, each with the right sources that are known for its task."""
    ids: dict[str, int] = {}

    def encode(text: str) -> Tensor:
        return torch.tensor([ids.setdefault(token, len(ids)) for token in _TOKEN.findall(text)], dtype=torch.long)

    num_references = max(map(len, references))
    rows = [[*map(encode, each), *[encode("")] * (num_references - len(each))] for each in references]
    flat = pad_sequence([tokens for row in rows for tokens in row], batch_first=True, padding_value=PADDING)
    padded = pad_sequence([encode(text) for text in candidates], batch_first=True, padding_value=PADDING)
    return bleu(padded, flat.view(len(rows), num_references, -1))


def bleu(candidates: Tensor, references: Tensor, max_n: int = 4) -> Tensor:
    """Sentence BLEU of token ids, all at once.

    Precisions of n-grams above one token are smoothed by adding one to both counts (Lin & Och 2004), and the brevity
    penalty takes the closest length of a reference (Papineni et al. 2002).

    Args:
        candidates: (N, L) token ids, the rest `PADDING`.
        references: (N, R, K) token ids, the rest `PADDING`; a reference without tokens does not count.

    Returns:
        (N,) between 0 and 1.

    Source: TensorBLEU (arXiv 2510.05485).
    """
    num, num_references = references.shape[:2]
    log_precision = torch.zeros(num, dtype=torch.float64)
    for n in range(1, max_n + 1):
        (rows, grams), (reference_rows, reference_grams) = _ngrams(candidates, n), _ngrams(references.flatten(0, 1), n)
        distinct, inverse = torch.unique(torch.cat([grams, reference_grams]), dim=0, return_inverse=True)
        size = max(len(distinct), 1)
        keys, counts = (rows * size + inverse[: len(grams)]).unique(return_counts=True)
        reference_keys, reference_counts = (reference_rows * size + inverse[len(grams) :]).unique(return_counts=True)
        # a gram counts as often as in the reference that has it most often
        of_row = reference_keys // size // num_references * size + reference_keys % size
        known_keys, slots = of_row.unique(return_inverse=True)
        most = torch.zeros(len(known_keys), dtype=torch.long).scatter_reduce(0, slots, reference_counts, "amax")
        known = torch.isin(keys, known_keys)
        allowed = most[torch.searchsorted(known_keys, keys[known])]
        matched = _sum_rows(num, keys[known] // size, torch.minimum(counts[known], allowed))
        total = _sum_rows(num, keys // size, counts)
        smooth = 0.0 if n == 1 else 1.0
        log_precision += torch.log((matched + smooth) / (total + smooth).clamp(min=1.0)) / max_n
    return torch.exp(log_precision + _log_brevity_penalty(candidates, references)).nan_to_num(0.0)


class _Ngrams(NamedTuple):
    rows: Tensor
    """(G,) the row that each n-gram stands in."""
    grams: Tensor
    """(G, n)"""


def _ngrams(tokens: Tensor, n: int) -> _Ngrams:
    if tokens.shape[1] < n:
        return _Ngrams(tokens.new_empty(0), tokens.new_empty(0, n))
    windows = tokens.unfold(1, n, 1)
    whole = (windows != PADDING).all(-1)
    return _Ngrams(whole.nonzero()[:, 0], windows[whole])


def _sum_rows(num: int, rows: Tensor, counts: Tensor) -> Tensor:
    return torch.zeros(num, dtype=torch.float64).index_add(0, rows, counts.double())


def _log_brevity_penalty(candidates: Tensor, references: Tensor) -> Tensor:
    lengths, reference_lengths = (candidates != PADDING).sum(1, keepdim=True), (references != PADDING).sum(2)
    far = candidates.shape[1] + references.shape[2] + 1
    distances = (reference_lengths - lengths).abs().masked_fill(reference_lengths == 0, far)
    order = distances * far + reference_lengths  # of two references that are as close, the shorter
    closest = reference_lengths.gather(1, order.argmin(1, keepdim=True))
    return (1 - closest.double() / lengths).clamp(max=0.0)[:, 0]
