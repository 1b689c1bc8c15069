from vllm.platforms.cuda import CudaPlatformBase


class MacaPlatform(CudaPlatformBase):
    device_name: str = "maca"
