"""Policies, who write kernels: base models, the messages that they are asked with, and sampling from them."""
