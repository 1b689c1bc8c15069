def register() -> str:
    """The platform, for the entry point of vllm.platform_plugins."""
    return "vllm_metax.platform.MacaPlatform"
