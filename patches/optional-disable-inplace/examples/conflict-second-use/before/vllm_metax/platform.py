from vllm.platforms.interface import Platform, PlatformEnum


class MacaPlatform(Platform):
    _enum = PlatformEnum.OOT
    device_name: str = "maca"
    device_type: str = "cuda"
    dispatch_key: str = "CUDA"

    @classmethod
    def is_cuda_alike(cls) -> bool:
        return True
