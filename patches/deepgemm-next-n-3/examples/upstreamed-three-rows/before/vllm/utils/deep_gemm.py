def native_next_n_supported(next_n: int) -> bool:
    """Whether the paged MQA logits kernel takes `next_n` Q rows per request."""
    if current_platform.is_device_capability_family(90):
        return next_n in (1, 2, 3, 4)
    return True
