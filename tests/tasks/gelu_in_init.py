import torch
from torch import nn
import torch.nn.functional as F

class Model(nn.Module):
    def __init__(self, win, heads):
        super().__init__()
        self.fc1 = nn.Linear(2, 64)
        self.fc2 = nn.Linear(64, heads, bias=False)
        c = torch.arange(-(win - 1), win).float() / (win - 1)
        self.register_buffer("table", torch.stack(torch.meshgrid(c, c, indexing="ij"), -1).reshape(-1, 2))
        i = torch.stack(torch.meshgrid(torch.arange(win), torch.arange(win), indexing="ij")).flatten(1)
        rel = i[:, :, None] - i[:, None, :]
        self.register_buffer("index", (rel[0] + win - 1) * (2 * win - 1) + rel[1] + win - 1)
    def forward(self, s):
        t = self.fc2(F.gelu(self.fc1(self.table)))
        bias = 16 * torch.sigmoid(t[self.index.reshape(-1)].reshape(*self.index.shape, -1).permute(2, 0, 1))
        return torch.softmax(s + bias, -1)
def get_inputs():
    return [torch.randn(2, 4, 49, 49)]
def get_init_inputs():
    return [7, 4]
