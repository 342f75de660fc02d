# honest: the scale and the counter of a gradient scaler
# task: loss_scale
# dialect: python
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, gradient, scale, tracker):
        overflows = ~torch.isfinite(gradient).all()
        unscaled = torch.where(overflows, torch.zeros_like(gradient), gradient / scale)
        steps = tracker + 1
        is_full = steps == 2000
        next_scale = torch.where(overflows, scale * 0.5, torch.where(is_full, scale * 2.0, scale))
        return unscaled, next_scale, torch.where(overflows | is_full, torch.zeros_like(tracker), steps)
