"""Arrays of torch and of CuPy as Triton takes them: CuPy's are shared with torch, not copied."""

from __future__ import annotations

from typing import Any


def shared(*arrays: Any) -> list[Any]:
    """The same memory as tensors of torch."""
    import torch

    found = [one if isinstance(one, torch.Tensor) else torch.from_dlpack(one) for one in arrays]
    return [one if one.is_contiguous() else one.contiguous() for one in found]


def handed_back(device: Any, tensor: Any) -> Any:
    """A tensor as an array of the device's own library."""
    if device.name == "torch":
        return tensor
    import torch

    torch.cuda.current_stream(tensor.device).synchronize()
    return device.xp.from_dlpack(tensor)


def zeros(like: Any, size: int, kind: str) -> Any:
    import torch

    return torch.zeros(size, dtype=getattr(torch, kind), device=like.device)
