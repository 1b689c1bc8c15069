import numpy as np
import torch
from PIL import Image


def _pil_to_nhwc_tensor(image: Image.Image) -> torch.Tensor:
    """Convert a PIL image to a 4-D NHWC tensor suitable for compiled ops."""
    array = np.asarray(
        image.convert("RGB") if image.mode != "RGB" else image, dtype=np.uint8
    )
    return torch.from_numpy(np.expand_dims(array, axis=0))
