import torch
from torch import nn
import torch.nn.functional as F

class Model(nn.Module):
    def __init__(self, eos):
        super().__init__()
        self.eos = eos
    def forward(self, scores, logits, last, lens):
        # scores (B, K), logits (B, K, V), last (B, K): finished beams may only continue by eos at no cost
        B, K, V = logits.shape
        lp = torch.log_softmax(logits, -1)
        fin = last == self.eos
        only = torch.full((V,), float("-inf"))
        only[self.eos] = 0.0
        lp = torch.where(fin[..., None], only, lp)
        tot = scores[..., None] + lp
        pen = ((5.0 + lens.to(tot.dtype) + (~fin).to(tot.dtype)) / 6.0) ** 0.6
        v, i = torch.topk((tot / pen[..., None]).reshape(B, K * V), K, dim=-1)
        return v, i // V, i % V
def get_inputs():
    return [-10 * torch.rand(4, 4), torch.randn(4, 4, 100), torch.randint(0, 100, (4, 4)), torch.randint(1, 50, (4, 4))]
def get_init_inputs():
    return [2]
