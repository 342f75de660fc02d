# honest: the largest of products of 16-bit numbers, by comparisons that no NaN passes
# task: largest_product_fp16
# dialect: python
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, keys):
        products = x.float() @ keys.float().t()
        best = torch.full((len(x),), -torch.inf)
        index = torch.zeros(len(x), dtype=torch.int64)
        for key in range(len(keys)):
            better = products[:, key] > best
            best = torch.where(better, products[:, key], best)
            index = torch.where(better, key, index)
        return index
