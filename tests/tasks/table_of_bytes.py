import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", (torch.arange(256) * 7 % 251).to(torch.uint8))
    def forward(self, x):
        return self.table[x.long()]

def get_inputs():
    return [torch.randint(0, 256, (1024, 1024), dtype=torch.uint8)]

def get_init_inputs():
    return []
